//! One file for each role of the program: wire and run.
