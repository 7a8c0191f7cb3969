package scale

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Load is what a job demands, and the servers that it would use. A zero value is not given, except for Trainers and Step.
type Load struct {
	Trainers int           // streams that are read at the same time
	Step     time.Duration // of a trainer: how long it takes for one batch
	Rows     int64         // of a trainer's batch, instead of the query's
	Row      int64         // bytes of a plain row, as measured
	CPU      time.Duration // of a server for a row, as measured
	Cores    int64         // of a server
	Memory   int64         // of a server, in bytes
	Link     float64       // of a server, in bytes/s
	// Prices, in any currency: of a server for an hour, of 1,000 read requests to storage, and of 10^9 bytes that servers send.
	ServerPrice, RequestPrice, TrafficPrice float64
}

// The servers that are assumed if the load does not describe them.
const (
	assumedCores  = 16
	assumedMemory = 64 << 30
	assumedLink   = 10e9 / 8
)

// parameter is one of the parameters of a load.
type parameter struct {
	name string
	form string // what a value is, for errors
	set  func(l *Load, text string) error
}

// parameters are the parameters of a load, in the order of the documentation.
func parameters() []parameter {
	return []parameter{
		{"trainers", "a whole number from 1 to " + strconv.Itoa(dataset.MaxLanes), func(l *Load, text string) (err error) {
			l.Trainers, err = strconv.Atoi(text)
			return within(err, int64(l.Trainers), dataset.MaxLanes)
		}},
		{"step", "a time such as 5ms or 1.5s", func(l *Load, text string) error { return span(&l.Step, text) }},
		{"rows", "a whole number of rows from 1 to " + strconv.Itoa(dataset.MaxBatchRows), func(l *Load, text string) error { return whole(&l.Rows, text, dataset.MaxBatchRows) }},
		{"row", "a size such as 550B or 2KiB", func(l *Load, text string) error { return size(&l.Row, text) }},
		{"cpu", "a time such as 600ns or 1.2us", func(l *Load, text string) error { return span(&l.CPU, text) }},
		{"cores", "a whole number of cores", func(l *Load, text string) error { return whole(&l.Cores, text, math.MaxInt32) }},
		{"memory", "a size such as 64GiB", func(l *Load, text string) error { return size(&l.Memory, text) }},
		{"link", "a speed such as 25Gbit/s or 100Mbit/s", func(l *Load, text string) error { return speed(&l.Link, text) }},
		{"server_price", "a number, of a server for an hour", func(l *Load, text string) error { return price(&l.ServerPrice, text) }},
		{"request_price", "a number, of 1,000 requests", func(l *Load, text string) error { return price(&l.RequestPrice, text) }},
		{"traffic_price", "a number, of 10^9 bytes", func(l *Load, text string) error { return price(&l.TrafficPrice, text) }},
	}
}

// Names returns the names of the parameters of a load.
func Names() []string {
	var names []string
	for _, p := range parameters() {
		names = append(names, p.name)
	}
	return names
}

// Parse reads a load, such as "trainers=64,step=5ms". An error lists all faults.
func Parse(text string) (Load, error) {
	var out Load
	var faults []fault.Field
	given := map[string]bool{}
	all := parameters()
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(part), "=")
		at := slices.IndexFunc(all, func(p parameter) bool { return p.name == name })
		switch {
		case at < 0:
			faults = append(faults, fault.Field{
				Field: "scale", Message: fmt.Sprintf("%q is not a parameter; the parameters are %s", fault.Shorten(name, 40), strings.Join(Names(), ", ")),
				Nearest: fault.Nearest(name, Names()),
			})
		case given[name]:
			faults = append(faults, fault.Field{Field: "scale." + name, Message: "is given twice"})
		case !found || all[at].set(&out, value) != nil:
			faults = append(faults, fault.Field{Field: "scale." + name, Message: fmt.Sprintf("%q is not %s", fault.Shorten(value, 40), all[at].form)})
		}
		given[name] = true
	}
	for _, p := range all[:2] {
		if !given[p.name] {
			faults = append(faults, fault.Field{Field: "scale." + p.name, Message: "missing; write trainers=64,step=5ms"})
		}
	}
	return out, fault.Fields(faults)
}

// errRange is the error of a value that is out of range. Parse describes it.
var errRange = fault.New(fault.Invalid, "out of range")

// within returns an error unless a number is from 1 to most.
func within(err error, n, most int64) error {
	if err == nil && (n < 1 || n > most) {
		return errRange
	}
	return err
}

func whole(out *int64, text string, most int64) error {
	n, err := strconv.ParseInt(text, 10, 64)
	*out = n
	return within(err, n, most)
}

func size(out *int64, text string) error {
	n, err := fault.ParseSize(text)
	*out = n
	return within(err, n, math.MaxInt64)
}

func span(out *time.Duration, text string) error {
	d, err := time.ParseDuration(text)
	*out = d
	return within(err, int64(d), math.MaxInt64)
}

// speed reads bits/s, as bytes/s.
func speed(out *float64, text string) error {
	text = strings.ToLower(strings.TrimSuffix(text, "/s"))
	for _, unit := range []struct {
		name  string
		bytes float64
	}{{"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}} {
		if digits, found := strings.CutSuffix(text, unit.name); found {
			err := price(out, strings.TrimSpace(digits))
			*out *= unit.bytes
			return err
		}
	}
	return errRange
}

// price reads a positive number.
func price(out *float64, text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err == nil && !(n > 0 && n <= 1e15) {
		return errRange
	}
	*out = n
	return err
}

// Streams sets the shards of a query to the trainers of the load, and its lanes if the query has only one. The query must have no
// shards, or as many as there are trainers, and read whole epochs.
func (l Load) Streams(q dataset.Query) (dataset.Query, error) {
	if len(q.Cursor) > 0 || q.Every.Of > 1 || q.Limit > 0 {
		return q, fault.InvalidField("query", "the figures are those of whole epochs").WithRemedy("leave cursor, every and limit out")
	}
	if q.Shard.Of > 1 && q.Shard.Of != l.Trainers {
		return q, fault.InvalidField("scale.trainers", "%d trainers cannot read %d shards", l.Trainers, q.Shard.Of).WithRemedy("leave shard out")
	}
	if q.Lanes == 1 {
		q.Lanes = l.Trainers
	}
	if q.Lanes%l.Trainers != 0 {
		return q, fault.InvalidField("scale.trainers", "%d trainers do not divide %s", l.Trainers, fault.Count(q.Lanes, "lane")).WithRemedy("leave lanes out, or set a multiple of %d", l.Trainers)
	}
	q.Shard = dataset.Shard{Index: dataset.AllShards, Of: l.Trainers}
	return q, nil
}
