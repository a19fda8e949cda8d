from mobfl.cli import main

main()
