from tallystick.cli import main

main()
