package main

import "fmt"

// notes returns a function that prints a line to standard error, unless the last one is less than 5 seconds old.
func (p process) notes() func(format string, args ...any) {
	last := p.clock()
	return func(format string, args ...any) {
		if now := p.clock(); now.Sub(last) >= progressEvery {
			last = now
			p.note(format+"\n", args...)
		}
	}
}

// printResult prints the result of a command that wrote: as JSON, or else as text.
func (p process) printResult(asJSON bool, result any, text string) error {
	if asJSON {
		return p.printJSON(result)
	}
	_, err := fmt.Fprint(p.stdout, text)
	return err
}
