package flight

import (
	"context"
	"runtime"
	"time"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/slowness"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/policy"
)

// ServerStatus is the result of the action status. Its counters only rise while the stream or the
// server runs, so a client computes rates from two results. Clients ignore fields that they do not
// know.
type ServerStatus struct {
	V        int    `json:"v"`         // 1
	Version  string `json:"version"`   // of the program
	UptimeMS int64  `json:"uptime_ms"` // since the server was made
	// All reports that the caller may see the streams of all clients and the fields below;
	// otherwise, it sees only its own streams.
	All     bool           `json:"all"`
	Cores   int            `json:"cores,omitempty"` // on which the server may run
	Memory  *MemoryStatus  `json:"memory,omitempty"`
	Slots   *SlotStatus    `json:"slots,omitempty"`
	Plans   *PlanStatus    `json:"plans,omitempty"`
	Cache   *CacheStatus   `json:"cache,omitempty"`  // nil: nothing is kept for later streams
	Config  *ConfigStatus  `json:"config,omitempty"` // nil: the configuration is not loaded again
	Streams []StreamStatus `json:"streams"`          // those that run or wait for a slot, the oldest first
	// Planning lists the calls that make plans, the oldest first.
	Planning []PlanningStatus `json:"planning"`
}

// MemoryStatus is the memory budget, in bytes.
type MemoryStatus struct {
	Limit    int64 `json:"limit"` // -1: none
	Used     int64 `json:"used"`
	Idle     int64 `json:"idle"`      // of used: kept for later streams, and given up when memory is needed
	InFlight int64 `json:"in_flight"` // of used: batches that clients have not taken
	// InFlightLimit is the most that InFlight may be; 0: there is no limit.
	InFlightLimit int64 `json:"in_flight_limit"`
	Peak          int64 `json:"peak"` // of used
}

// SlotStatus describes the slots of streams.
type SlotStatus struct {
	Limit     int `json:"limit"`      // 0: none, and nothing is counted
	PerClient int `json:"per_client"` // that one client may have
	Taken     int `json:"taken"`
	Kept      int `json:"kept"` // for other shards of plans whose first shard has one
	Waiting   int `json:"waiting"`
}

// PlanStatus counts the calls that make plans.
type PlanStatus struct {
	Limit   int `json:"limit"`
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// CacheStatus summarizes what is kept for later streams; the action cache_ls lists it.
type CacheStatus struct {
	Limit          int64 `json:"limit"` // bytes of decoded columns in memory
	Bytes          int64 `json:"bytes"`
	Files          int   `json:"files"`
	BuildSides     int64 `json:"build_sides"`
	BuildSideBytes int64 `json:"build_side_bytes"`
	DiskLimit      int64 `json:"disk_limit"` // bytes; 0: nothing is kept on disk
	DiskBytes      int64 `json:"disk_bytes"`
	// NoRoom is how many columns of row groups found no room, or made room for others.
	NoRoom int64 `json:"no_room"`
}

// ConfigStatus is the result of the last reload of the configuration.
type ConfigStatus struct {
	Current bool      `json:"current"` // the file on disk is what the server uses
	Applied int64     `json:"applied"` // how often a file was used since the start
	Refused int64     `json:"refused"`
	Last    time.Time `json:"last,omitzero"`   // when it was loaded last
	Error   string    `json:"error,omitempty"` // why the last load was refused
}

// StreamStatus is one stream.
type StreamStatus struct {
	ID        string      `json:"id"` // random, of this stream; a stream that is resumed is another one
	Subject   string      `json:"subject,omitempty"`
	Job       string      `json:"job,omitempty"`
	Dataset   string      `json:"dataset,omitempty"` // omitted if the query carried its dataset
	Inline    bool        `json:"inline,omitempty"`  // the query carried its dataset
	Plan      string      `json:"plan"`
	Shard     ShardStatus `json:"shard"`
	Lanes     int         `json:"lanes"` // of the shard; 0: it is not planned yet
	Started   time.Time   `json:"started"`
	OpenMS    int64       `json:"open_ms"` // since then
	Rows      int64       `json:"rows"`    // sent by this stream
	RowsTotal int64       `json:"rows_total"`
	Step      int64       `json:"step"` // of its last cursor, counted from the start of the plan
	Steps     int64       `json:"steps"`
	Batches   int64       `json:"batches"`
	Bytes     int64       `json:"bytes"`        // on the wire
	Mapped    int64       `json:"mapped_bytes"` // in mapped memory
	Way       string      `json:"way"`          // how batches reach the client: ring, mapped, receiver or network
	Parked    bool        `json:"parked,omitempty"`
	// Waiting is what the stream waits for now; omitted if it does not wait.
	Waiting string     `json:"waiting,omitempty"`
	Waited  WaitedTime `json:"waited_ms"` // so far, by cause
	Worked  WorkedTime `json:"worked_ms"` // so far, by kind of work
	Reads   ReadCounts `json:"reads"`
	// Beside is for how long the other streams of the server have worked since this one began, added up; omitted for callers who do not
	// see them.
	Beside int64 `json:"beside_ms,omitempty"`
	// Limit is what the stream has spent most of its time on; omitted if that is not known yet.
	Limit *slowness.Limit `json:"limit,omitempty"`
}

// ShardStatus is the shard of a stream.
type ShardStatus struct {
	Index int `json:"index"`
	Of    int `json:"of"`
}

// WaitedTime is how long a stream has waited, in milliseconds by cause: waits at the same time count once, so that the
// sum is at most the time for which the stream is open.
type WaitedTime struct {
	Trainer int64 `json:"trainer"` // the client has not taken the last batch
	Network int64 `json:"network"` // the connection to the client takes no more bytes
	Slot    int64 `json:"slot"`    // max_streams are open
	Memory  int64 `json:"memory"`  // the budget has no room
	Stream  int64 `json:"stream"`  // another stream reads what this one needs
	Deletes int64 `json:"deletes"` // delete files are opened and read
	Storage int64 `json:"storage"` // files are opened and read
}

// WorkedTime is how long a stream has worked while it waited for nothing, in milliseconds by kind of work.
type WorkedTime struct {
	Plan    int64 `json:"plan"`    // the query is planned, and the stream opened
	Spill   int64 `json:"spill"`   // build sides are joined on local disk
	Decode  int64 `json:"decode"`  // rows of files are decoded and filtered
	Build   int64 `json:"build"`   // staging rows are indexed by key
	Compute int64 `json:"compute"` // expressions are evaluated
	Join    int64 `json:"join"`    // rows are joined and cut into batches
	Send    int64 `json:"send"`    // batches are encoded and handed to the transport
}

// ReadCounts counts what was read from storage for a stream, also ahead. Requests run at the same time, so their times may add up
// to more than the time of the stream.
type ReadCounts struct {
	Requests int64 `json:"requests"`
	Failed   int64 `json:"failed"` // of requests: those that failed, also if they were repeated
	Bytes    int64 `json:"bytes"`
	Took     int64 `json:"took_ms"`    // to the last byte
	First    int64 `json:"first_ms"`   // of took_ms: to the first byte; 0 if the store cannot tell
	Delayed  int64 `json:"delayed_ms"` // between a request that failed and its repetition
	Sought   int64 `json:"sought"`     // columns of row groups that were looked up in the cache
	Found    int64 `json:"found"`      // of sought
}

// statusOf returns the status of a stream at a time.
func (one *runningStream) statusOf(now time.Time) StreamStatus {
	out := StreamStatus{
		ID: one.id, Subject: one.subject, Job: one.query.Job, Dataset: one.query.Dataset, Inline: one.query.Inline != nil, Plan: one.plan,
		Shard: ShardStatus{Index: max(0, one.query.Shard.Index), Of: one.query.Shard.Of}, Started: one.began.UTC().Truncate(time.Millisecond), OpenMS: now.Sub(one.began).Milliseconds(),
		RowsTotal: unknown, Steps: unknown, Parked: one.parked.Load(), Way: one.way,
		Rows: one.sent.rows.Load(), Step: one.sent.step.Load(), Batches: one.sent.batches.Load(), Bytes: one.sent.bytes.Load(), Mapped: one.sent.mapped.Load(),
	}
	if extent := one.extent.Load(); extent != nil {
		out.Lanes, out.RowsTotal, out.Steps = extent.lanes, extent.rows, extent.steps
	}
	all, cause, waiting := one.waits.Now()
	if waiting {
		out.Waiting = cause.String()
	}
	out.Waited, out.Worked, out.Reads = waitedTime(all), workedTime(all), readCounts(one.waits.Reads())
	return out
}

// status lists the streams of the caller, or all streams if it has the right to see them.
func (s *service) status(_ context.Context, c *call.Call, body []byte) ([]byte, error) {
	if err := decode.Status(body); err != nil {
		return nil, err
	}
	now, own := s.options.Clock(), c.Client()
	out := ServerStatus{
		V: 1, Version: s.options.Version, UptimeMS: now.Sub(s.began).Milliseconds(), Streams: []StreamStatus{},
		All: s.guard.Policy().May(c.Caller, policy.Status),
	}
	working := s.running.working()
	for _, one := range s.running.list(func(one *runningStream) bool { return out.All || one.client == own }) {
		status := one.statusOf(s.options.Clock())
		status.Beside = one.beside(working).Milliseconds()
		if one.limited && !out.All { // the bytes are also those of rows and columns that the caller may not read
			status.Reads = ReadCounts{}
		}
		out.Streams = append(out.Streams, status)
	}
	out.Planning = s.planning.list(now, func(client string) bool { return out.All || client == own })
	s.describe(&out)
	for i := range out.Streams {
		out.Streams[i].Limit = out.LimitOf(out.Streams[i])
		if !out.All {
			out.Streams[i].Beside = 0
		}
	}
	if !out.All {
		out.Cores, out.Memory, out.Slots, out.Plans, out.Cache, out.Config = 0, nil, nil, nil, nil, nil
	}
	return jsontext.Of(out), nil
}

// describe adds the state of the memory, slots and caches of the server.
func (s *Server) describe(out *ServerStatus) {
	out.Cores = runtime.GOMAXPROCS(0)
	b := s.options.Budget
	_, inFlight := s.inflight.Counts()
	out.Memory = &MemoryStatus{Limit: b.Limit(), Used: b.Used(), Idle: b.Idle(), InFlight: inFlight, InFlightLimit: s.inflight.Limit, Peak: b.Peak()}
	slots := s.admission.Counts()
	out.Slots = &SlotStatus{Limit: slots.Places, PerClient: slots.Share, Taken: slots.Taken, Kept: slots.Kept, Waiting: slots.Waiting}
	plans, redeems := s.planSlots.Counts(), s.redeemSlots.Counts()
	out.Plans = &PlanStatus{Limit: plans.Places, Running: plans.Taken + redeems.Taken, Waiting: plans.Waiting + redeems.Waiting}
	if s.options.Cache != nil {
		list := s.options.Cache.List()
		out.Cache = &CacheStatus{
			Limit: list.Limit, Bytes: list.Bytes, Files: len(list.Files), BuildSides: list.BuildSides.Count, BuildSideBytes: list.BuildSides.Bytes,
			DiskLimit: list.Disk.Limit, DiskBytes: list.Disk.Bytes, NoRoom: list.NoRoom,
		}
	}
	if s.options.Config != nil {
		config := s.options.Config()
		out.Config = &config
	}
}
