package scenario

import (
	"fmt"

	"github.com/penstock/penstock/loader/dataset"
)

// Expected joins a case with nested loops: the rows of the whole read in the
// order in which training rows were appended, and whether a rule makes it an
// error. It shares no code with the product.
func (c *Case) Expected() (rows [][]any, fails bool) {
	for _, training := range c.Training.Rows {
		if c.Filter > 0 && training[2].(int64) < c.Filter {
			continue
		}
		row, dropped := append([]any{}, training...), false
		for i, entry := range c.Dataset.Staging {
			matches := c.matches(training[0], i)
			if training[0] == nil {
				c.Seen.NullKeys++
			}
			switch {
			case len(matches) == 0:
				c.Seen.Missing++
				fails = fails || entry.Missing == dataset.MissingError
				dropped = dropped || entry.Join == dataset.Inner
				row = append(row, nil, nil, nil)
				continue
			case len(matches) > 1:
				c.Seen.Duplicates++
				fails = fails || entry.Duplicates == dataset.DuplicatesError
			}
			m := matches[0]
			if entry.Duplicates == dataset.DuplicatesLast {
				m = matches[len(matches)-1]
			}
			row = append(row, m[4], m[2], m[3])
		}
		if !dropped {
			rows = append(rows, row)
		}
	}
	if fails {
		c.Seen.Errors++
	}
	return rows, fails
}

func (c *Case) matches(key any, staging int) [][]any {
	var matches [][]any
	for _, row := range c.Staging[staging].Rows {
		if c.Dataset.Staging[staging].Filter != "" && row[1].(int64) >= 3 {
			continue
		}
		if key != nil && row[0] == key {
			matches = append(matches, row)
		}
	}
	return matches
}

// Texts renders rows for comparison.
func Texts(rows [][]any) []string {
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = fmt.Sprintf("%v", row)
	}
	return texts
}
