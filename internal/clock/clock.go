// Package clock is the clock of the program. The composition root passes Now to the code that needs
// the time.
//
// With the build tag "shiftclock", the wall clock is ahead of the machine's by the seconds in the
// file that the environment variable PENSTOCK_CLOCK_SHIFT names. Tests of expiry and of clocks that
// jump use such a build. Without the tag, Now is time.Now.
package clock
