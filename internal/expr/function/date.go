package function

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	acceptsMoment    = "a date or a timestamp"
	acceptsTimestamp = "a timestamp"
	secondsPerDay    = 86_400
)

// The first and last days and seconds of the years 1 to 9999, which all engines support.
const (
	firstDay    = -719_162
	lastDay     = 2_932_896
	firstSecond = firstDay * secondsPerDay
	lastSecond  = (lastDay+1)*secondsPerDay - 1
)

func dateFunctions() []definition {
	return []definition{
		datePart("year", acceptsMoment, "the year, from 1 to 9999", func(days, _ int64) int64 { y, _, _ := civil(days); return y }),
		datePart("quarter", acceptsMoment, "the quarter of the year, from 1 to 4", func(days, _ int64) int64 { _, m, _ := civil(days); return (m + 2) / 3 }),
		datePart("month", acceptsMoment, "the month, from 1 to 12", func(days, _ int64) int64 { _, m, _ := civil(days); return m }),
		datePart("day", acceptsMoment, "the day of the month, from 1 to 31", func(days, _ int64) int64 { _, _, d := civil(days); return d }),
		datePart("dayofyear", acceptsMoment, "the day of the year, from 1 to 366", func(days, _ int64) int64 { return dayOfYear(days) }),
		datePart("weekofyear", acceptsMoment, "the week of the year by ISO 8601, from 1 to 53", func(days, _ int64) int64 { return isoWeek(days) }),
		twin(datePart("isodow", acceptsMoment, "the day of the week, from 1 for Monday to 7 for Sunday",
			func(days, _ int64) int64 { return weekday(days) + 1 }), "", "extract(DAYOFWEEK_ISO FROM x)"),
		datePart("hour", acceptsTimestamp, "the hour of the day, from 0 to 23", func(_, seconds int64) int64 { return seconds / 3600 }),
		datePart("minute", acceptsTimestamp, "the minute of the hour, from 0 to 59", func(_, seconds int64) int64 { return seconds / 60 % 60 }),
		datePart("second", acceptsTimestamp, "the whole second of the minute, from 0 to 59", func(_, seconds int64) int64 { return seconds % 60 }),
		{
			Signature: Signature{
				Name: "date_trunc", Arguments: "unit, x", Result: "the type of x",
				Accepts: "a literal 'year', 'quarter', 'month', 'week', 'day', 'hour', 'minute' or 'second', and a timestamp",
				Meaning: "the first instant of the unit of time that has x; weeks begin on Mondays",
			},
			least: 2, most: 2, bind: bindTrunc,
		},
		{
			Signature: Signature{
				Name: "datediff", Arguments: "'day', a, b", Accepts: "the literal 'day' and two dates", Result: "long",
				Meaning: "the number of days from a to b", Spark: "datediff(b, a)",
			},
			least: 3, most: 3, bind: bindDateDiff,
		},
		unixTime("unix_seconds", "seconds", 1, "epoch_us(date_trunc('second', x)) // 1000000"),
		unixTime("unix_millis", "milliseconds", 1000, "epoch_us(date_trunc('millisecond', x)) // 1000"),
		unixTime("unix_micros", "microseconds", microsPerSecond, "epoch_us(x)"),
		fromUnixTime("timestamp_seconds", "seconds", 1, "to_timestamp(x)"),
		fromUnixTime("timestamp_millis", "milliseconds", 1000, "make_timestamp_ms(x)"),
		fromUnixTime("timestamp_micros", "microseconds", microsPerSecond, "make_timestamp(x)"),
	}
}

const microsPerSecond = 1_000_000

// twin sets the calls of engines.
func twin(d definition, duckdb, spark string) definition {
	d.DuckDB, d.Spark = duckdb, spark
	return d
}

func outsideYears() *refusal {
	return &refusal{"is outside of the years 1 to 9999", "replace such values, for example with NULL in a CASE"}
}

// ticks returns the number of a timestamp's units in a second; false for other types.
func ticks(dt arrow.DataType) (int64, bool) {
	t, ok := dt.(*arrow.TimestampType)
	if !ok || t.Unit != arrow.Microsecond && t.Unit != arrow.Nanosecond {
		return 0, false
	}
	return int64(1e9 / t.Unit.Multiplier().Nanoseconds()), true
}

// divide returns the quotient, rounded down, and the remainder, which is not negative.
func divide(a, b int64) (quotient, rest int64) {
	quotient, rest = a/b, a%b
	if rest < 0 {
		return quotient - 1, rest + b
	}
	return quotient, rest
}

// datePart defines a function of the days since 1970-01-01 and the seconds since midnight, in UTC.
func datePart(name, accepts, meaning string, of func(days, seconds int64) int64) definition {
	return definition{
		Signature: Signature{Name: name, Arguments: "x", Accepts: accepts, Result: "long", Meaning: meaning},
		least:     1, most: 1,
		bind: func(args []Argument) (Bound, error) {
			outside := outsideYears()
			if args[0].Type.ID() == arrow.DATE32 && accepts == acceptsMoment {
				return unary(name, int64Type(), partial(func(days int32) (int64, *refusal) {
					if days < firstDay || days > lastDay {
						return 0, outside
					}
					return of(int64(days), 0), nil
				})), nil
			}
			unit, ok := ticks(args[0].Type)
			if !ok {
				return Bound{}, errTypes{}
			}
			return unary(name, int64Type(), partial(func(x int64) (int64, *refusal) {
				seconds, _ := divide(x, unit)
				if seconds < firstSecond || seconds > lastSecond {
					return 0, outside
				}
				return of(divide(seconds, secondsPerDay)), nil
			})), nil
		},
	}
}

// daysPerEra is the number of days in 400 years of the Gregorian calendar.
const daysPerEra = 146_097

// civil returns the date of a day since 1970-01-01. It counts years from March 1, so that leap days are last.
func civil(days int64) (year, month, day int64) {
	era, dayOfEra := divide(days+719_468, daysPerEra) // since 0000-03-01
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36_524 - dayOfEra/146_096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153 // months since March
	year, month, day = era*400+yearOfEra, shifted+3, dayOfYear-(153*shifted+2)/5+1
	if month > 12 {
		return year + 1, month - 12, day
	}
	return year, month, day
}

// daysOf is the inverse of civil.
func daysOf(year, month, day int64) int64 {
	if month <= 2 {
		year, month = year-1, month+12
	}
	era, yearOfEra := divide(year, 400)
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	return era*daysPerEra + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719_468
}

// weekday returns 0 for Monday to 6 for Sunday.
func weekday(days int64) int64 {
	_, rest := divide(days+3, 7) // 1970-01-01 is a Thursday
	return rest
}

func dayOfYear(days int64) int64 {
	year, _, _ := civil(days)
	return days - daysOf(year, 1, 1) + 1
}

// isoWeek returns the number of the week, which belongs to the year that has its Thursday.
func isoWeek(days int64) int64 { return (dayOfYear(days-weekday(days)+3)-1)/7 + 1 }

// truncation returns a function that returns the first second of a unit of time.
func truncation(unit string) func(seconds int64) int64 {
	ofDays := func(first func(days int64) int64) func(int64) int64 {
		return func(seconds int64) int64 {
			days, _ := divide(seconds, secondsPerDay)
			return first(days) * secondsPerDay
		}
	}
	ofSeconds := func(n int64) func(int64) int64 {
		return func(seconds int64) int64 {
			_, rest := divide(seconds, n)
			return seconds - rest
		}
	}
	switch unit {
	case "year":
		return ofDays(func(days int64) int64 { y, _, _ := civil(days); return daysOf(y, 1, 1) })
	case "quarter":
		return ofDays(func(days int64) int64 { y, m, _ := civil(days); return daysOf(y, (m-1)/3*3+1, 1) })
	case "month":
		return ofDays(func(days int64) int64 { _, _, d := civil(days); return days - d + 1 })
	case "week":
		return ofDays(func(days int64) int64 { return days - weekday(days) })
	case "day":
		return ofSeconds(secondsPerDay)
	case "hour":
		return ofSeconds(3600)
	case "minute":
		return ofSeconds(60)
	case "second":
		return ofSeconds(1)
	default:
		return nil
	}
}

func bindTrunc(args []Argument) (Bound, error) {
	text, isText := textLiteralOf(args[0])
	first := truncation(strings.ToLower(text))
	dt := args[1].Type
	unit, ok := ticks(dt)
	if !ok || !isText || first == nil {
		return Bound{}, errTypes{}
	}
	outside := outsideYears()
	least := -(1<<63 - 1) / unit // the first second that a timestamp of nanoseconds can have
	return second(unary("date_trunc", dt, partial(func(x int64) (int64, *refusal) {
		seconds, _ := divide(x, unit)
		if seconds < firstSecond || seconds > lastSecond {
			return 0, outside
		}
		if seconds = first(seconds); seconds < least {
			return 0, outside
		}
		return seconds * unit, nil
	}))), nil
}

// second returns a function of two arguments that ignores the first, which is a literal.
func second(b Bound) Bound {
	size, run := b.Size, b.Run
	b.Size = func(sizes []int64, rows int) int64 { return size(sizes[1:], rows) }
	b.Run = func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
		return run(args[1:], rows, mem)
	}
	return b
}

func bindDateDiff(args []Argument) (Bound, error) {
	unit, ok := textLiteralOf(args[0])
	if !ok || strings.ToLower(unit) != "day" || args[1].Type.ID() != arrow.DATE32 || args[2].Type.ID() != arrow.DATE32 {
		return Bound{}, errTypes{}
	}
	return Bound{
		Type: int64Type(),
		Size: func(_ []int64, rows int) int64 { return fixedSize(rows, arrow.Int64SizeBytes) },
		Run: func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			o := newOutput(rows, mem)
			defer o.close()
			v, a, b := o.common(args), vectorOf[int32](args[1], rows), vectorOf[int32](args[2], rows)
			buffer := o.buffer(rows * arrow.Int64SizeBytes)
			out := values[int64](buffer)
			for i := range out {
				out[i] = int64(b.at(i)) - int64(a.at(i))
			}
			return o.array(int64Type(), v, buffer), nil
		},
	}, nil
}

// unixTime defines a function that returns the units of time from 1970-01-01 to a timestamp.
func unixTime(name, units string, perSecond int64, duckdb string) definition {
	return definition{
		Signature: Signature{
			Name: name, Arguments: "x", Accepts: acceptsTimestamp, Result: "long",
			Meaning: "the whole " + units + " from 1970-01-01 00:00 UTC to x, rounded down", DuckDB: duckdb,
		},
		least: 1, most: 1,
		bind: func(args []Argument) (Bound, error) {
			unit, ok := ticks(args[0].Type)
			if !ok {
				return Bound{}, errTypes{}
			}
			return unary(name, int64Type(), each(func(x int64) int64 {
				out, _ := divide(x, unit/perSecond)
				return out
			})), nil
		},
	}
}

// fromUnixTime defines the inverse of unixTime.
func fromUnixTime(name, units string, perSecond int64, duckdb string) definition {
	result := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	return definition{
		Signature: Signature{
			Name: name, Arguments: "x", Accepts: "an int or long", Result: "timestamptz",
			Meaning: "the timestamp x " + units + " after 1970-01-01 00:00 UTC; it fails outside of the years 1 to 9999", DuckDB: duckdb,
		},
		least: 1, most: 1,
		bind: func(args []Argument) (Bound, error) {
			outside := outsideYears()
			convert := func(x int64) (int64, *refusal) {
				if seconds, _ := divide(x, perSecond); seconds < firstSecond || seconds > lastSecond {
					return 0, outside
				}
				return x * (microsPerSecond / perSecond), nil
			}
			switch args[0].Type.ID() {
			case arrow.INT32:
				return unary(name, result, partial(func(x int32) (int64, *refusal) { return convert(int64(x)) })), nil
			case arrow.INT64:
				return unary(name, result, partial(convert)), nil
			default:
				return Bound{}, errTypes{}
			}
		},
	}
}
