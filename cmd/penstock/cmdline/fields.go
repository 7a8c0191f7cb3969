package cmdline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/loader/dataset"
)

// AddFields adds a flag for each of the fields that has a help text. The flag sets this field in
// the value that into points to.
func AddFields[S any](c *cobra.Command, into *S, fields []dataset.Field[S]) {
	for _, f := range fields {
		if f.Flag.Help == "" {
			continue
		}
		flag := c.Flags().VarPF(&fieldValue[S]{field: f, into: into}, flagOf(f.About), "", f.Flag.Help)
		if f.Truth {
			flag.NoOptDefVal = strconv.FormatBool(true)
		}
	}
}

// fieldValue is the value of a flag that sets a field.
type fieldValue[S any] struct {
	field dataset.Field[S]
	into  *S
	given string
	items []string // the items so far, if the field is a list
}

// String implements pflag.Value.
func (v *fieldValue[S]) String() string { return v.given }

// Type implements pflag.Value.
func (v *fieldValue[S]) Type() string {
	if v.field.Truth {
		return "bool"
	}
	return v.field.Flag.Shape
}

// Set implements pflag.Value.
func (v *fieldValue[S]) Set(given string) error {
	f := v.field
	switch {
	case strings.HasPrefix(given, "--"):
		return errFlagFollows
	case f.Truth:
		truth, err := strconv.ParseBool(given)
		if err != nil {
			return err
		}
		f.SetTruth(v.into, truth)
	case f.Number:
		n, err := strconv.ParseInt(given, 10, 64)
		if err != nil || n < f.Low || n > f.High {
			return wantedError(fmt.Sprintf("a whole number from %d to %d", f.Low, f.High))
		}
		f.SetNumber(v.into, n)
	case f.Words != nil && !slices.Contains(f.Words, given):
		return wantedError(strings.Join(f.Words, " or "))
	case f.Flag.Each:
		v.items = append(v.items, given)
		f.SetTexts(v.into, v.items)
	case f.SetTexts != nil:
		f.SetTexts(v.into, Items(given))
	default:
		f.SetText(v.into, given)
	}
	v.given = given
	return nil
}

// Items splits a comma-separated list. It trims the items and drops empty ones.
func Items(text string) []string {
	var out []string
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

// wantedError is the error for an invalid value of a flag. Its text describes the values that the
// flag accepts.
type wantedError string

func (e wantedError) Error() string { return "want " + string(e) }
