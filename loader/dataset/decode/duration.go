package decode

import (
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// readLag decodes a duration, or a whole number for integer partitions.
func readLag(d *decoder, at place) dataset.Lag {
	if at.kind == kindWhole {
		return dataset.Lag{Count: d.whole(at, 0, maxInt64)}
	}
	if at.kind != kindText {
		d.fail(at.path, "must be a duration (also in months, mo, and years, y), or a whole number for integer partitions, not %s", at.kind)
		return dataset.Lag{}
	}
	out, err := dataset.ParseLag(at.text)
	if err != nil {
		d.fail(at.path, "%s; a lag may also be in months (mo) and years (y), or a whole number for integer partitions", fault.As(err).Message)
	}
	return out
}

// readTolerance decodes a duration, or a whole number for long columns.
func readTolerance(d *decoder, at place) dataset.Lag {
	if at.kind == kindWhole {
		return dataset.Lag{Count: d.whole(at, 0, maxInt64)}
	}
	return dataset.Lag{Time: d.duration(at)}
}

// duration decodes a duration without months and years.
func (d *decoder) duration(at place) time.Duration {
	if at.kind != kindText {
		d.fail(at.path, "must be a duration, %s, not %s", dataset.DurationForm, at.kind)
		return 0
	}
	out, err := dataset.ParseLag(at.text)
	switch {
	case err != nil:
		d.fail(at.path, "%s", fault.As(err).Message)
	case out.Months != 0:
		d.fail(at.path, "months and years have no fixed length; write it in days (d) or hours (h)")
	}
	return out.Time
}
