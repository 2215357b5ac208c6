# Says yes or nothing at all.
package example.silent

import rego.v1

decision if input.actor == "ada"
