# Looks at everything that a question may hold.
package example.circumstances

import rego.v1

policy_version := "circumstances@3"

default decision := {"allow": false, "reason": "not from here, not now, not with that"}

decision := {"allow": true, "reason": "as it should be", "policy_version": policy_version, "cacheable": false} if {
	startswith(input.context.ip_address, "10.")
	input.context.timestamp >= "2025-01-01T00:00:00.000Z"
	input.context.tenant_id == "acme"
	startswith(input.tool, "memory.")
	startswith(input.resource, "plan")
	not input.resource_owner
}
