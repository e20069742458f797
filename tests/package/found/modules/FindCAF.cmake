message(FATAL_ERROR "godwit took its caller's module for CAF")
