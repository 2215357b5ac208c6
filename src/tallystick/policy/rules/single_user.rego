# One person on one machine: whoever can start the process may do everything in their own memory.
package tallystick.single_user

import rego.v1

policy_version := "single-user@1"

# What is found by a search need not be asked about one by one: it is all this user's own.
decision := {"result": same_tenant, "reason": reason, "policy_version": policy_version, "narrows": false}

default same_tenant := false

same_tenant if not input.resource_owner_tenant

same_tenant if input.resource_owner_tenant == input.context.tenant_id

reason := "single local user" if same_tenant

reason := "cross-tenant access denied" if not same_tenant
