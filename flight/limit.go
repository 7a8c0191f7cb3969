package flight

import (
	"time"

	"github.com/penstock/penstock/flight/slowness"
	"github.com/penstock/penstock/internal/waits"
)

// LimitOf returns what limits a stream of this server. one is what the status has of the stream, or what [StreamStatus.Since] returns
// for it. It is nil if nothing is known yet.
func (s ServerStatus) LimitOf(one StreamStatus) *slowness.Limit {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	spent := slowness.Spent{
		Open: ms(one.OpenMS), Times: one.totals(), Beside: ms(one.Beside), Cores: s.Cores, Reads: one.Reads.reads(),
	}
	if m := s.Memory; m != nil {
		spent.InFlight = m.InFlightLimit > 0 && m.InFlight > m.InFlightLimit/2
	}
	if c := s.Cache; c != nil {
		spent.Cached, spent.CacheFull = c.Limit > 0, c.NoRoom > 0
	}
	return slowness.Of(spent)
}

// totals returns the times of a stream.
func (one StreamStatus) totals() waits.Totals {
	var out waits.Totals
	for c, ms := range map[waits.Cause]int64{
		waits.Trainer: one.Waited.Trainer, waits.Network: one.Waited.Network, waits.Slot: one.Waited.Slot, waits.Memory: one.Waited.Memory,
		waits.Stream: one.Waited.Stream, waits.Deletes: one.Waited.Deletes, waits.Storage: one.Waited.Storage,
		waits.Plan: one.Worked.Plan, waits.Spill: one.Worked.Spill, waits.Decode: one.Worked.Decode, waits.Build: one.Worked.Build,
		waits.Compute: one.Worked.Compute, waits.Join: one.Worked.Join, waits.Send: one.Worked.Send,
	} {
		out[c] = time.Duration(ms) * time.Millisecond
	}
	return out
}

// Since returns the stream with its counters since an earlier status of it. A zero before stands for the beginning of the stream.
func (one StreamStatus) Since(before StreamStatus) StreamStatus {
	out, a, b := one, one.totals(), before.totals()
	for c := range a {
		a[c] -= b[c]
	}
	out.OpenMS -= before.OpenMS
	out.Rows -= before.Rows
	out.Batches -= before.Batches
	out.Bytes -= before.Bytes
	out.Mapped -= before.Mapped
	out.Beside -= before.Beside
	out.Waited, out.Worked = waitedTime(a), workedTime(a)
	out.Reads = readCounts(one.Reads.reads().Since(before.Reads.reads()))
	return out
}

func waitedTime(all waits.Totals) WaitedTime {
	ms := func(c waits.Cause) int64 { return all.Of(c).Milliseconds() }
	return WaitedTime{
		Trainer: ms(waits.Trainer), Network: ms(waits.Network), Slot: ms(waits.Slot), Memory: ms(waits.Memory), Stream: ms(waits.Stream),
		Deletes: ms(waits.Deletes), Storage: ms(waits.Storage),
	}
}

func workedTime(all waits.Totals) WorkedTime {
	ms := func(c waits.Cause) int64 { return all.Of(c).Milliseconds() }
	return WorkedTime{
		Plan: ms(waits.Plan), Spill: ms(waits.Spill), Decode: ms(waits.Decode), Build: ms(waits.Build), Compute: ms(waits.Compute),
		Join: ms(waits.Join), Send: ms(waits.Send),
	}
}

// readCounts returns reads as the status has them, with times in milliseconds.
func readCounts(r waits.Reads) ReadCounts {
	return ReadCounts{
		Requests: r.Requests, Failed: r.Failed, Bytes: r.Bytes, Took: r.Took.Milliseconds(), First: r.First.Milliseconds(),
		Delayed: r.Delayed.Milliseconds(), Sought: r.Sought, Found: r.Found,
	}
}

// reads is the inverse of readCounts.
func (r ReadCounts) reads() waits.Reads {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return waits.Reads{
		Requests: r.Requests, Failed: r.Failed, Bytes: r.Bytes, Took: ms(r.Took), First: ms(r.First), Delayed: ms(r.Delayed), Sought: r.Sought, Found: r.Found,
	}
}

// working returns for how long streams have worked since the server was made, added up.
func (r *runningStreams) working() (all time.Duration) {
	for _, of := range r.allTimes() {
		all += workOf(of.Times)
	}
	return all
}

// beside returns for how long other streams have worked since this one began, given for how long all streams have.
func (one *runningStream) beside(working time.Duration) time.Duration {
	all, _, _ := one.waits.Now()
	return max(0, working-one.others-workOf(all))
}

// workOf returns the time of all kinds of work.
func workOf(all waits.Totals) (sum time.Duration) {
	for _, c := range waits.Works() {
		sum += all.Of(c)
	}
	return sum
}
