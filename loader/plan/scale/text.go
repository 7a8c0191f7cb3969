package scale

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/fault"
)

// String returns the sizing as a text with a line for each figure.
func (s Sizing) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan %s: %s in all\n\n", s.Facts.Plan, fault.Count(s.Servers, "server"))
	name, value := 0, 0
	for _, f := range s.Figures {
		name, value = max(name, utf8.RuneCountInString(f.Name)), max(value, utf8.RuneCountInString(f.value()))
	}
	for _, f := range s.Figures {
		fmt.Fprintf(&b, "%-*s  %*s  %-8s  %s\n", name, f.Name, value, f.value(), f.Rests, f.How)
	}
	b.WriteString("\ngiven: by you; metadata: of the tables; measured: a rate of other tables; estimate: from sizes of types\n" +
		"and files; assumed: not given. Each figure has the weakest basis of its inputs. Formulas: docs/scale.md\n")
	return b.String()
}

// value formats the value with its unit.
func (f Figure) value() string {
	switch f.Unit {
	case "B":
		if f.Value < 1024 {
			return fmt.Sprintf("%.0f B", f.Value)
		}
		return fault.Size(int64(f.Value))
	case "B/s":
		return fault.Size(int64(f.Value)) + "/s"
	}
	if f.Value == 1 {
		return "1 " + strings.TrimSuffix(f.Unit, "s")
	}
	return strings.TrimSpace(number(f.Value) + " " + f.Unit)
}

// number formats a number: in millions or whole if it is large, and with three digits otherwise.
func number(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', 2, 64) + " M"
	case v == math.Trunc(v) || v >= 1000:
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
