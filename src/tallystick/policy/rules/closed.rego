# Where several people could ask and nobody has said who may: nobody.
package tallystick.closed

import rego.v1

policy_version := "closed@1"

decision := {"result": false, "reason": "no policy is configured", "policy_version": policy_version}
