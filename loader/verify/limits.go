package verify

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// CheckLimits checks limits of a table's values at a snapshot, given the name of the table in the dataset. The error is Forbidden if
// the client may not read all values of the table, and NotFound or Invalid if the limits do not fit the table.
type CheckLimits func(ctx context.Context, table string, snapshot int64, limits dataset.Limits) (*drift.Checked, error)

// checkLimits adds findings for the limits of a table's values that do not hold.
func (v *verifier) checkLimits(ctx context.Context, report *Table, name string, t *catalog.Table, limits *dataset.Limits) error {
	if limits == nil || !t.HasSnapshot() {
		return nil
	}
	if v.options.CheckLimits == nil {
		return fault.New(fault.Invalid, "this program does not check limits of values").In(name, "").WithRemedy("remove limits from the dataset")
	}
	checked, err := v.options.CheckLimits(ctx, name, t.Pin.Snapshot, *limits)
	switch kind := fault.KindOf(err); {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case kind == fault.Forbidden:
		v.find(beyondLimit, worthKnowing, Finding{Table: report.Name, Message: "the limits of values are not checked: " + fault.As(err).Message})
		return nil
	case kind == fault.NotFound || kind == fault.Invalid:
		v.find(beyondLimit, breaksRule, Finding{Table: report.Name, Message: err.Error()})
		return nil
	case kind == fault.Corrupt:
		v.find(unreadable, breaksStream, Finding{Table: report.Name, File: fault.As(err).File, Message: err.Error()})
		return nil
	default:
		return err
	}
	report.Limits = checked
	for _, broken := range checked.Broken {
		v.find(beyondLimit, breaksRule, Finding{Table: report.Name, Message: broken.Place() + ": " + broken.Text(), Limit: &broken})
	}
	return nil
}

// limitsText says which limits were checked.
func limitsText(c *drift.Checked) string {
	text := "limits of " + quantity(len(c.Columns), "column")
	if c.Partitions > 0 {
		text += fmt.Sprintf(", in all rows and by %s in %s", c.Partition, quantity(c.Partitions, "partition"))
	}
	if c.Base != 0 {
		text += fmt.Sprintf(", compared with snapshot %d", c.Base)
	}
	return fmt.Sprintf("%s: %d broken", text, len(c.Broken))
}
