// Stopping in order: SIGINT, SIGTERM, SIGHUP and SIGUSR1 set a flag that long loops read. A second SIGINT kills at
// once.
#pragma once

namespace cirrus::signals {

/// Catches SIGINT, SIGTERM, SIGHUP and SIGUSR1 from now on, unless they were ignored. run_program() calls it; a second
/// call does nothing.
void install();

/// The signal that asked the program to stop, or 0. The first one stands, except that the others replace SIGUSR1.
int stop_requested();

/// For loops without checkpoints: throws Error(interrupted) once SIGINT, SIGTERM or SIGHUP came. SIGUSR1 ("time is
/// nearly up") is left to those who can save something.
void check_interrupt();

/// Asks the program to stop, as if the signal had come (a time limit), or forgets the request (0).
void request_stop(int signal);

}  // namespace cirrus::signals
