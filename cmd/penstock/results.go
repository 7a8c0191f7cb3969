package main

import "fmt"

// printResult prints the result of a command that wrote: as JSON, or else as text.
func (p process) printResult(asJSON bool, result any, text string) error {
	if asJSON {
		return p.printJSON(result)
	}
	_, err := fmt.Fprint(p.stdout, text)
	return err
}
