# TC-003-01: researchers read research plans, and nothing else.
package example.researcher

import rego.v1

default decision := {"result": false, "reason": "not a researcher's to see", "policy_version": "v1.2.0"}

decision := {"result": true, "reason": "researchers read plans", "policy_version": "v1.2.0"} if {
	"researcher" in input.actor_roles
	input.action == "READ"
	input.resource_type == "research_plan"
}
