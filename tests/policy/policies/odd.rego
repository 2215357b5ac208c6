# Answers that are no decisions, for some.
package example.odd

import rego.v1

answers := {
	"yes": {"result": "true"},
	"one": {"result": 1},
	"text": "true",
	"list": [true],
	"both": {"result": true, "allow": false},
	"empty": {},
	"other": {"granted": true},
	"null": {"result": null},
	"plain": {"result": true},
	"number": {"result": true, "reason": 7, "policy_version": 7},
}

decision := answers[input.actor]
