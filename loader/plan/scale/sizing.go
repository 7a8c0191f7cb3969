package scale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// Basis is what a figure rests on.
type Basis string

// The bases, from the firmest to the weakest.
const (
	Given    Basis = "given"    // by the caller
	Metadata Basis = "metadata" // of the tables, exactly
	Measured Basis = "measured" // a rate that was measured on other tables (docs/scale.md)
	Estimate Basis = "estimate" // from sizes of types and files
	Assumed  Basis = "assumed"  // the caller gave no value
)

// Figure is one result.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Rests is the weakest basis of the figure, and How its formula with its inputs.
	Rests Basis  `json:"rests_on"`
	How   string `json:"how"`
}

// Sizing is what a job needs.
type Sizing struct {
	Facts   Facts    `json:"facts"`
	Servers int      `json:"servers"` // one more than the job needs, so that it goes on without loss of speed if one is lost
	Figures []Figure `json:"figures"`
}

// sizing collects figures.
type sizing struct {
	facts   Facts
	load    Load
	out     []Figure
	row     float64 // bytes of a row of the query's batches on the wire
	rests   Basis   // of row
	cpu     float64 // CPU seconds of a row
	cpuRest Basis
	step    Basis // of the rows of a batch, and of what is computed from them
}

// Of returns what a job needs. It fails if the number of rows of a batch is not known, or if no number of servers has enough memory.
func (l Load) Of(f Facts) (Sizing, error) {
	if l.Rows == 0 && f.StepRows == 0 {
		return Sizing{}, fault.InvalidField("scale.rows", "missing: batches of the query are some requests").WithRemedy("add rows=, the rows of one batch of a trainer")
	}
	s := sizing{facts: f, load: l}
	s.rows()
	rate := s.rate()
	s.epoch(rate)
	s.wire()
	cores, network := s.processor(rate), s.network(rate)
	n, err := s.servers(cores, network)
	if err != nil {
		return Sizing{}, err
	}
	s.memory(n)
	s.storage(n, rate)
	s.loss(n)
	s.cost(n, rate)
	return Sizing{Facts: f, Servers: n, Figures: s.out}, nil
}

// result is a figure without its basis.
type result struct {
	name  string
	value float64
	unit  string
}

// add adds a figure and returns its value.
func (s *sizing) add(r result, rests Basis, how string, args ...any) float64 {
	s.out = append(s.out, Figure{Name: r.name, Value: r.value, Unit: r.unit, Rests: rests, How: fmt.Sprintf(how, args...)})
	return r.value
}

// rows is the number of rows of a batch.
func (s *sizing) rows() {
	how := "batch of the query"
	s.step = Given
	switch {
	case s.load.Rows > 0:
		s.facts.StepRows, how = s.load.Rows, "rows"
	case s.facts.Chosen:
		s.step, how = Assumed, "the batch that a server chooses; rows= and batch_rows are not given"
	}
	s.add(result{"step_rows", float64(s.facts.StepRows), "rows"}, s.step, "%s", how)
}

func (s *sizing) rate() float64 {
	rate := float64(s.load.Trainers) * float64(s.facts.StepRows) / s.load.Step.Seconds()
	return s.add(result{"rows_per_second", rate, "rows/s"}, s.step, "%d trainers × %d rows / %s", s.load.Trainers, s.facts.StepRows, s.load.Step)
}

func (s *sizing) epoch(rate float64) {
	rests, how := Metadata, "of the plan"
	if !s.facts.Exact {
		rests, how = Estimate, "as stored, before deletes, filters and joins"
	}
	s.add(result{"epoch_rows", float64(s.facts.Rows), "rows"}, rests, "%s", how)
	s.add(result{"epoch_seconds", float64(s.facts.Rows) / rate, "s"}, weaker(s.step, rests), "epoch_rows / rows_per_second")
}

// wire is the size of rows.
func (s *sizing) wire() {
	plain, rests, how := s.facts.RowBytes, Estimate, "types of columns; lists and texts by sizes of files"
	if s.load.Row > 0 {
		plain, rests, how = float64(s.load.Row), Given, "row"
	}
	s.add(result{"row_plain", plain, "B"}, rests, "%s", how)
	indexed := plain * s.facts.IndexedBytes / s.facts.RowBytes
	s.add(result{"row_indexed", indexed, "B"}, Estimate, "staging values once for each request, and %d B for each index", indexBytes)
	s.row, s.rests = plain, rests
	if s.facts.Indexed {
		s.row, s.rests = indexed, Estimate
	}
	s.cpu, s.cpuRest = CPU(plain, s.facts.Indexed), Measured
	how = fmt.Sprintf("%s × row_plain", time.Duration(secondsPerByte*1e9))
	if plain < narrowest {
		how = fmt.Sprintf("%s × %d B, the narrowest row that was measured", time.Duration(secondsPerByte*1e9), narrowest)
	}
	if s.facts.Indexed {
		how += fmt.Sprintf(" × %.1f, indexed", indexedShare)
	}
	if s.load.CPU > 0 {
		s.cpu, s.cpuRest, how = s.load.CPU.Seconds(), Given, "cpu"
	}
	s.add(result{"row_cpu", s.cpu * 1e6, "µs"}, s.cpuRest, "%s", how)
}

// processor is the number of cores of all servers.
func (s *sizing) processor(rate float64) float64 {
	return s.add(result{"cores", headroom * rate * s.cpu, "cores"}, weaker(s.step, s.cpuRest), "%d × rows_per_second × row_cpu", headroom)
}

// network is what all servers send, in bytes/s.
func (s *sizing) network(rate float64) float64 {
	form := "row_plain"
	if s.facts.Indexed {
		form = "row_indexed"
	}
	s.add(result{"network", rate * s.row * 8 / 1e9, "Gbit/s"}, weaker(s.step, s.rests), "rows_per_second × %s", form)
	return rate * s.row
}

// servers returns the least number of servers for some cores and bytes/s, and one more.
func (s *sizing) servers(cores, network float64) (int, error) {
	of := func(given, assumed float64) (float64, Basis) {
		if given > 0 {
			return given, Given
		}
		return assumed, Assumed
	}
	each, rests := of(float64(s.load.Cores), assumedCores)
	coresBasis := weaker(s.step, weaker(rests, s.cpuRest))
	byCores := s.add(result{"servers_by_cores", max(1, math.Ceil(cores/each)), "servers"}, coresBasis, "cores / %g", each)
	link, rests := of(s.load.Link, assumedLink)
	if err := s.stream(cores, network, link); err != nil {
		return 0, err
	}
	linksBasis := weaker(s.step, weaker(rests, s.rests))
	byLinks := s.add(result{"servers_by_network", max(1, math.Ceil(network/link/UsableLink)), "servers"}, linksBasis, "network / (%.1f × %g Gbit/s)", UsableLink, link*8/1e9)
	memory, rests := of(float64(s.load.Memory), assumedMemory)
	least := s.facts.Streams + 1
	for n := s.facts.Streams; n > 0 && Process(s.budget(n)) <= memory && s.each(n) <= Slots(memory*defaultShare); n-- {
		least = n
	}
	if least > s.facts.Streams {
		return 0, fault.InvalidField("scale.memory", "a server with one stream needs %s", fault.Size(int64(Process(s.budget(s.facts.Streams))))).
			WithRemedy("give servers more memory, or the query fewer lanes or a smaller shuffle_window")
	}
	memoryBasis := weaker(s.step, weaker(rests, Estimate))
	byMemory := s.add(result{"servers_by_memory", float64(least), "servers"}, memoryBasis, "the least number whose server_memory is at most %s", fault.Size(int64(memory)))
	n := int(max(byCores, byLinks, byMemory)) + 1
	s.add(result{"servers", float64(n), "servers"}, weaker(coresBasis, weaker(linksBasis, memoryBasis)), "the largest of the three, and one that may be lost")
	return n, nil
}

// stream checks that a server can serve one stream at its speed: a stream is not divided among servers.
func (s *sizing) stream(cores, network, link float64) error {
	streams := float64(s.facts.Streams)
	one := s.add(result{"stream_network", network / streams * 8 / 1e9, "Gbit/s"}, weaker(s.step, s.rests), "network / %d streams", s.facts.Streams)
	if most := UsableLink * link * 8 / 1e9; one > most {
		return fault.InvalidField("scale.link", "one stream needs %s Gbit/s, and a link of %g Gbit/s gives it %.3g", number(one), link*8/1e9, most).
			WithRemedy("use faster links, indexed batches, servers on the trainers' hosts, or more trainers with smaller batches")
	}
	most := float64(streamCores)
	if s.facts.Indexed {
		most = streamCoresIndexed
	}
	if one := s.add(result{"stream_cores", cores / headroom / streams, "cores"}, weaker(s.step, s.cpuRest), "rows_per_second × row_cpu / %d streams; a stream uses at most %g", s.facts.Streams, most); one > most {
		return fault.InvalidField("scale.step", "one stream needs %s cores, and uses at most %g", number(one), most).
			WithRemedy("use indexed batches, or more trainers with smaller batches")
	}
	return nil
}

// each returns how many streams a server has, if one of n is lost.
func (s *sizing) each(n int) int { return (s.facts.Streams + n - 1) / n }

// budget returns the memory budget of each of n servers.
func (s *sizing) budget(n int) float64 {
	return s.facts.Budget(s.each(n), float64(s.facts.StepRows)*s.row)
}

func (s *sizing) memory(n int) {
	needed := max(1, n-1)
	streams := s.add(result{"server_streams", float64(s.each(needed)), "streams"}, Metadata, "%s / %s, one lost", fault.Count(s.facts.Streams, "stream"), fault.Count(needed, "server"))
	budget := s.add(result{"server_budget", s.budget(needed), "B"}, weaker(s.step, Estimate), "lanes × %s, build sides of %d × their files, %d batches of each stream", fault.Size(s.facts.LaneBytes), decoded, batchesHeld)
	s.add(result{"server_memory", Process(budget), "B"}, weaker(s.step, Estimate), "1.25 × server_budget + 256 MiB")
	s.add(result{"server_slots", float64(Slots(float64(cmp.Or(s.load.Memory, assumedMemory)) * defaultShare)), "streams"}, Metadata, "max_streams, if memory is half of the machine; %g are used", streams)
	s.add(result{"cache_budget", s.facts.CacheBudget(needed), "B"}, Estimate, "4 × the decoded columns or the build sides of a server, for later epochs")
}

func (s *sizing) storage(n int, rate float64) {
	f := s.facts
	s.add(result{"splits", float64(f.Splits), "splits"}, Metadata, "of %d training files", f.Training.Files)
	largest := Entry{}
	for _, e := range f.Staging {
		if e.Largest > largest.Largest {
			largest = e
		}
	}
	if largest.Largest > 0 {
		s.add(result{"build_side", float64(decoded * largest.Largest), "B"}, Estimate, "the largest of %d of %s: %s of columns × %d", largest.Groups, fault.Shorten(largest.Name, 40), fault.Size(largest.Largest), decoded)
	}
	s.add(result{"build_sides", f.BuildSides(n), "build sides"}, Estimate, "groups of the streams, spread over %d servers", n)
	read := s.add(result{"epoch_read", f.Read(n), "B"}, Estimate, "%s of training columns, and build_sides", fault.Size(f.Training.StreamBytes))
	s.add(result{"later_read", f.ReadLater(n), "B"}, Estimate, "%s", map[bool]string{
		true: "with cache_budget: lanes keep their rows", false: "with cache_budget: lanes have other rows in each epoch (algorithm 1)",
	}[f.LanesKeepRows])
	s.add(result{"epoch_requests", f.Requests(n), "requests"}, Estimate, "%d for each file that a stream or a build side opens", requestsPerFile)
	s.add(result{"storage", read * rate / float64(max(1, f.Rows)), "B/s"}, weaker(s.step, Estimate), "epoch_read / epoch_seconds")
}

// loss is what one lost server of n costs.
func (s *sizing) loss(n int) {
	if n < 2 {
		return
	}
	s.add(result{"loss_streams", math.Ceil(s.facts.Moved(1, n)), "streams"}, Metadata, "that move if one server is lost")
	bytes, _ := s.facts.ReadAgain(1, n)
	s.add(result{"loss_read", bytes, "B"}, Estimate, "their files and build sides, again")
}

func (s *sizing) cost(n int, rate float64) {
	l, f := s.load, s.facts
	if l.ServerPrice == 0 && l.RequestPrice == 0 && l.TrafficPrice == 0 {
		return
	}
	hours := float64(f.Rows) / rate / 3600
	servers := float64(n) * l.ServerPrice
	if l.ServerPrice > 0 {
		s.add(result{"cost_per_hour", servers, ""}, Estimate, "servers × %g", l.ServerPrice)
	}
	s.add(result{"cost_per_epoch", servers*hours + f.Requests(n)/1e3*l.RequestPrice + float64(f.Rows)*s.row/1e9*l.TrafficPrice, ""}, weaker(s.step, Estimate),
		"servers, epoch_requests / 1000 × %g, epoch_rows × bytes of a row / 10^9 × %g", l.RequestPrice, l.TrafficPrice)
}

// weaker returns the weaker of two bases.
func weaker(a, b Basis) Basis {
	order := []Basis{Given, Metadata, Measured, Estimate, Assumed}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}
