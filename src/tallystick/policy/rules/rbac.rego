# Roles, owners and tenants.
#
#   reader   reads and searches
#   writer   also writes, and deletes what it owns
#   admin    also deletes what others own
#   auditor  reads and searches, the refused calls of others included
#
# Nobody reaches into another tenant. Copy this file to make it yours: keep `decision`, change
# `policy_version` with every change of meaning, and keep the tests beside it.
package tallystick.rbac

import rego.v1

policy_version := "rbac@2"

decision := {
	"result": allow,
	"reason": reason,
	"policy_version": policy_version,
	"reads_everything": reads_everything,
}

permissions := {
	"reader": {"READ", "SEARCH"},
	"writer": {"READ", "SEARCH", "WRITE"},
	"admin": {"READ", "SEARCH", "WRITE", "DELETE"},
	"auditor": {"READ", "SEARCH"},
}

# Nothing is withheld from these roles, so their counts and lists are complete. If a rule of yours denies them READ of
# something, remove them here.
default reads_everything := false

reads_everything if {
	same_tenant
	some role in input.actor_roles
	role in {"admin", "auditor"}
}

default allow := false

allow if {
	same_tenant
	count(grants) > 0
}

# Said the positive way: a question that names no tenant is not taken for one from the right tenant.
same_tenant if not input.resource_owner_tenant

same_tenant if input.resource_owner_tenant == input.context.tenant_id

grants contains sprintf("role %s may %s", [role, input.action]) if {
	some role in input.actor_roles
	input.action in permissions[role]
}

grants contains "the owner may DELETE" if {
	input.action == "DELETE"
	input.resource_owner == input.actor
	some role in input.actor_roles
	"WRITE" in permissions[role]
}

reason := "cross-tenant access denied" if {
	not same_tenant
} else := concat(", ", grants) if {
	allow
} else := "actor lacks delete permission on non-owned entities" if {
	input.action == "DELETE"
	input.resource_owner != input.actor
} else := sprintf("role lacks %s permission", [input.action])
