"""Optional capabilities, a package each. No module outside imports them; `tallystick.extension` finds them."""
