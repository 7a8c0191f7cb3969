// Package statustext writes the status of a server as one screen of text.
//
// If there is an earlier status of the same server, rates and shares of waiting time are measured
// since that status. Otherwise they are measured since each stream began.
package statustext

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/slowness"
	"github.com/penstock/penstock/internal/fault"
)

// maxStreams is the maximum number of streams on one screen.
const maxStreams = 20

// maxPlanning is the maximum number of plans on one screen.
const maxPlanning = 3

// maxLimits is the maximum number of limits that are explained below the streams.
const maxLimits = 5

// unknown is the text of a cell without a value.
const unknown = "-"

// Write writes a status. before is an earlier status of the same server, or nil.
func Write(w io.Writer, now flight.ServerStatus, before *flight.ServerStatus) error {
	var b strings.Builder
	writeServer(&b, now)
	if len(now.Streams) > 0 {
		writeStreams(&b, now, before)
	}
	if !now.All {
		b.WriteString("\nonly this client's own streams: the others need a rule of the policy with allow: [status]\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeServer writes the lines about the server.
func writeServer(b *strings.Builder, s flight.ServerStatus) {
	fmt.Fprintf(b, "penstock %s, up for %s, %s\n", s.Version, span(s.UptimeMS), fault.Count(len(s.Streams), "stream"))
	if m := s.Memory; m != nil {
		limit := " without a limit"
		if m.Limit >= 0 {
			limit = " of " + fault.Size(m.Limit)
		}
		fmt.Fprintf(b, "memory  %s%s in use, %s of it idle, %s in flight; at most %s so far\n", fault.Size(m.Used), limit, fault.Size(m.Idle), fault.Size(m.InFlight), fault.Size(m.Peak))
	}
	if l := s.Slots; l != nil && l.Limit > 0 {
		fmt.Fprintf(b, "slots   %d of %d taken, %d kept, %d waiting; one client may have %d\n", l.Taken, l.Limit, l.Kept, l.Waiting, l.PerClient)
	}
	if p := s.Plans; p != nil {
		fmt.Fprintf(b, "plans   %d being made, %d waiting\n", p.Running, p.Waiting)
	}
	writePlanning(b, s.Planning)
	if c := s.Cache; c != nil {
		fmt.Fprintf(b, "cache   %s of %s in %s, %s of %s", fault.Size(c.Bytes), fault.Size(c.Limit), fault.Count(c.Files, "file"), fault.Count(c.BuildSides, "build side"), fault.Size(c.BuildSideBytes))
		if c.DiskLimit > 0 {
			fmt.Fprintf(b, "; on disk %s of %s", fault.Size(c.DiskBytes), fault.Size(c.DiskLimit))
		}
		b.WriteString("\n")
	}
	if c := s.Config; c != nil {
		state := "in use as it is on disk"
		if !c.Current {
			state = "not in use as it is on disk"
		}
		fmt.Fprintf(b, "config  %s; used again %s, refused %s\n", state, fault.Count(c.Applied, "time"), fault.Count(c.Refused, "time"))
		if c.Error != "" {
			fmt.Fprintf(b, "        refused at %s: %s\n", c.Last.Format(time.TimeOnly), strings.ReplaceAll(c.Error, "\n", " "))
		}
	}
}

// writePlanning writes a line for each call that makes a plan, the oldest first.
func writePlanning(b *strings.Builder, all []flight.PlanningStatus) {
	for i, one := range all {
		if i == maxPlanning {
			fmt.Fprintf(b, "        … %d more: --json has all\n", len(all)-i)
			break
		}
		names := slices.DeleteFunc([]string{datasetOf(one.Inline, one.Dataset), one.Job, one.Subject}, func(name string) bool { return name == "" })
		fmt.Fprintf(b, "        %s: for %s, %s\n", strings.Join(names, ", "), span(one.OpenMS), Planning(one))
	}
}

// Planning returns the current activity of a call that makes a plan.
func Planning(one flight.PlanningStatus) string {
	switch one.Waiting {
	case "":
		return "works"
	case "tables":
		return "waits for catalogs and metadata files"
	case "files":
		return "waits for lists of files"
	}
	return "waits for a " + one.Waiting
}

// writeStreams writes a line for each stream, the oldest first.
func writeStreams(b *strings.Builder, now flight.ServerStatus, before *flight.ServerStatus) {
	earlier := map[string]flight.StreamStatus{}
	if before != nil {
		for _, one := range before.Streams {
			earlier[one.ID] = one
		}
	}
	subjects := slices.ContainsFunc(now.Streams, func(one flight.StreamStatus) bool { return one.Subject != "" })
	var limits []slowness.Limit
	b.WriteString("\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	row := func(subject string, cells ...string) {
		if subjects {
			cells = slices.Insert(cells, 1, subject)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	row("SUBJECT", "JOB", "DATASET", "SHARD", "OPEN", "ROWS", "DONE", "ROWS/S", "BYTES/S", "WAY", "NOW", "WAITED FOR", "LIMIT")
	for i, one := range now.Streams {
		if i == maxStreams {
			break
		}
		since := one.Since(earlier[one.ID])
		limit := now.LimitOf(since)
		if limit != nil && len(limits) < maxLimits && !slices.ContainsFunc(limits, func(l slowness.Limit) bool { return l.Cause == limit.Cause }) {
			limits = append(limits, *limit)
		}
		row(cmp.Or(one.Subject, unknown), cmp.Or(one.Job, unknown), datasetOf(one.Inline, one.Dataset), fmt.Sprintf("%d/%d", one.Shard.Index, one.Shard.Of), span(one.OpenMS),
			strconv.FormatInt(one.Rows, 10), done(one), rate(since, since.Rows), byteRate(since), cmp.Or(one.Way, unknown), State(one), shares(since), limitText(limit))
	}
	_ = w.Flush() // a Builder returns no errors
	if more := len(now.Streams) - maxStreams; more > 0 {
		fmt.Fprintf(b, "… %d more: --json has all\n", more)
	}
	for i, one := range limits {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "%s\n", Explain(one))
	}
}

// limitText is what limits a stream, for a cell.
func limitText(l *slowness.Limit) string {
	if l == nil {
		return unknown
	}
	return fmt.Sprintf("%s %d%%", l.Cause, int(100*l.Share))
}

// Explain says in one line what a limit is, and what to do about it.
func Explain(l slowness.Limit) string {
	why := ""
	if l.Why != "" {
		why = " (" + l.Why + ")"
	}
	return fmt.Sprintf("%s: %s%s. To change it: %s", l.Cause, l.Cause.Meaning(), why, l.Remedy)
}

func datasetOf(inline bool, name string) string {
	if inline {
		return "(inline)"
	}
	return name
}

// done returns how much of a stream was sent, in percent of its steps. If the number of steps is
// unknown, it returns the percentage of the rows.
func done(one flight.StreamStatus) string {
	part, whole := one.Step, one.Steps
	if whole < 0 {
		part, whole = one.Rows, one.RowsTotal
	}
	switch {
	case whole < 0:
		return unknown
	case whole == 0:
		return "100%"
	}
	return fmt.Sprintf("%d%%", min(100, part*100/whole))
}

// State returns the current activity of a stream.
func State(one flight.StreamStatus) string {
	switch {
	case one.Parked:
		return "parked"
	case one.Waiting != "":
		return "waits for " + one.Waiting
	case one.Lanes == 0:
		return "is planned"
	}
	return "works"
}

// perSecond divides an amount by the seconds of an interval. It returns false if no time has passed.
func perSecond(since flight.StreamStatus, amount int64) (int64, bool) {
	if since.OpenMS <= 0 {
		return 0, false
	}
	return int64(float64(amount) * 1000 / float64(since.OpenMS)), true
}

func rate(since flight.StreamStatus, amount int64) string {
	n, ok := perSecond(since, amount)
	if !ok {
		return unknown
	}
	return strconv.FormatInt(n, 10)
}

func byteRate(since flight.StreamStatus) string {
	n, ok := perSecond(since, since.Bytes+since.Mapped)
	if !ok {
		return unknown
	}
	return fault.Size(n)
}

// shares returns, for each cause of waiting, the share of the time for which the stream waited.
// Shares below one percent are omitted.
func shares(since flight.StreamStatus) string {
	w := since.Waited
	var out []string
	for _, one := range []struct {
		name string
		ms   int64
	}{
		{"trainer", w.Trainer}, {"network", w.Network}, {"storage", w.Storage}, {"deletes", w.Deletes}, {"memory", w.Memory}, {"stream", w.Stream}, {"slot", w.Slot},
	} {
		if percent := one.ms * 100 / max(1, since.OpenMS); percent > 0 {
			out = append(out, fmt.Sprintf("%s %d%%", one.name, min(100, percent)))
		}
	}
	if out == nil {
		return unknown
	}
	return strings.Join(out, ", ")
}

// span returns the text of a duration in its two largest units.
func span(ms int64) string {
	const hour, day = 60 * 60, 24 * 60 * 60
	switch s := ms / 1000; {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < hour:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < day:
		return fmt.Sprintf("%dh%02dm", s/hour, s%hour/60)
	default:
		return fmt.Sprintf("%dd%02dh", s/day, s%day/hour)
	}
}
