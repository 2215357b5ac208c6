# Two rules that contradict each other, for some.
package example.quarrel

import rego.v1

decision := true if input.actor in {"ada", "eve"}

decision := false if input.actor in {"bob", "eve"}
