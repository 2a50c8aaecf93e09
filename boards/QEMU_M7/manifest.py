# What is frozen into the firmware of the QEMU_M7 board.
include("../../firmware/manifest.py")
module("_boot.py")
