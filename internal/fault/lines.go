package fault

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
)

// Lines calls add with the words of each line of a file. add returns a message if the line has a
// fault, and "" otherwise; Lines returns these faults with their lines. It skips empty lines and
// lines that begin with #. The faults contain no text of the file.
func Lines(text []byte, add func(words []string) (message string)) []Field {
	var faults []Field
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if message := add(strings.Fields(line)); message != "" {
			faults = append(faults, Field{Field: fmt.Sprintf("line %d", n), Message: message})
		}
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, Field{Message: err.Error()})
	}
	return faults
}
