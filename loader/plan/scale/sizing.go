package scale

import (
	"fmt"
	"math"
	"time"

	"github.com/penstock/penstock/internal/fault"
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
	facts Facts
	load  Load
	out   []Figure

	batch quantity // rows of a batch
	rate  quantity // rows/s of all trainers
	rows  quantity // of an epoch
	row   quantity // bytes of a row of the query's batches on the wire
	cpu   quantity // seconds of a row
	n     quantity // servers
}

// Of returns what a job needs. It fails if the number of rows of a batch is not known, or if no number of servers has enough memory.
func (l Load) Of(f Facts) (Sizing, error) {
	if l.Rows == 0 && f.StepRows == 0 {
		return Sizing{}, fault.InvalidField("scale.rows", "missing: batches of the query are some requests").WithRemedy("add rows=, the rows of one batch of a trainer")
	}
	s := sizing{facts: f, load: l}
	s.demand()
	s.epoch()
	s.wire()
	if err := s.servers(); err != nil {
		return Sizing{}, err
	}
	s.memory()
	s.storage()
	s.loss()
	s.cost()
	return Sizing{Facts: f, Servers: s.count(), Figures: s.out}, nil
}

// add adds a figure and returns its value. how is the formula, with its inputs.
func (s *sizing) add(name string, q quantity, unit, how string, args ...any) quantity {
	s.out = append(s.out, Figure{Name: name, Value: q.value, Unit: unit, Rests: q.rests, How: fmt.Sprintf(how, args...)})
	return q
}

// demand is the rows that the trainers take.
func (s *sizing) demand() {
	rows, how := given(float64(s.facts.StepRows)), "batch of the query"
	switch {
	case s.load.Rows > 0:
		rows, how = given(float64(s.load.Rows)), "rows"
	case s.facts.Chosen:
		rows.rests, how = Assumed, "the batch that a server chooses; rows= and batch_rows are not given"
	}
	s.batch = s.add("step_rows", rows, "rows", "%s", how)
	rate := given(float64(s.load.Trainers)).times(rows).over(given(s.load.Step.Seconds()))
	s.rate = s.add("rows_per_second", rate, "rows/s", "%d trainers × %.0f rows / %s", s.load.Trainers, rows.value, s.load.Step)
}

func (s *sizing) epoch() {
	rows, how := quantity{float64(s.facts.Rows), Metadata}, "of the plan"
	if !s.facts.Exact {
		rows.rests, how = Estimate, "as stored, before deletes, filters and joins"
	}
	s.rows = s.add("epoch_rows", rows, "rows", "%s", how)
	s.add("epoch_seconds", rows.over(s.rate), "s", "epoch_rows / rows_per_second")
}

// wire is the size of rows, and the time of servers for them.
func (s *sizing) wire() {
	plain, how := quantity{s.facts.RowBytes, Estimate}, "types of columns; lists and texts by sizes of files"
	if s.load.Row > 0 {
		plain, how = given(float64(s.load.Row)), "row"
	}
	s.row = s.add("row_plain", plain, "B", "%s", how)
	saved := quantity{s.facts.IndexedBytes / s.facts.RowBytes, Estimate}
	indexed := s.add("row_indexed", plain.times(saved), "B", "staging values once for each request, and %d B for each index", indexBytes)
	if s.facts.Indexed {
		s.row = indexed
	}
	s.cpu, how = computed(CPU(plain.value, s.facts.Indexed), Measured, plain), fmt.Sprintf("%s × row_plain", time.Duration(secondsPerByte*1e9))
	if plain.value < narrowest {
		how = fmt.Sprintf("%s × %d B, the narrowest row that was measured", time.Duration(secondsPerByte*1e9), narrowest)
	}
	if s.facts.Indexed {
		how += fmt.Sprintf(" × %.1f, indexed", indexedShare)
	}
	if s.load.CPU > 0 {
		s.cpu, how = given(s.load.CPU.Seconds()), "cpu"
	}
	s.add("row_cpu", s.cpu.times(given(1e6)), "µs", "%s", how)
}

// servers is the least number of servers, and one more.
func (s *sizing) servers() error {
	cores := s.add("cores", given(headroom).times(s.rate).times(s.cpu), "cores", "%d × rows_per_second × row_cpu", headroom)
	form := "row_plain"
	if s.facts.Indexed {
		form = "row_indexed"
	}
	sent := s.rate.times(s.row) // by all servers, in bytes/s
	s.add("network", gigabits(sent), "Gbit/s", "rows_per_second × %s", form)
	each := orAssumed(float64(s.load.Cores), assumedCores)
	byCores := s.add("servers_by_cores", cores.over(each).wholes(), "servers", "cores / %g", each.value)
	link := orAssumed(s.load.Link, assumedLink)
	if err := s.stream(cores, sent, link); err != nil {
		return err
	}
	byLinks := s.add("servers_by_network", sent.over(link).over(given(UsableLink)).wholes(), "servers", "network / (%.1f × %g Gbit/s)", UsableLink, gigabits(link).value)
	byMemory, err := s.byMemory()
	if err != nil {
		return err
	}
	most := max(byCores.value, byLinks.value, byMemory.value)
	s.n = s.add("servers", computed(most+1, Given, byCores, byLinks, byMemory), "servers", "the largest of the three, and one that may be lost")
	return nil
}

// gigabits converts bytes/s to Gbit/s.
func gigabits(bytes quantity) quantity { return bytes.times(given(8)).over(given(1e9)) }

// byMemory returns the least number of servers with enough memory.
func (s *sizing) byMemory() (quantity, error) {
	memory := s.serverMemory()
	least := s.facts.Streams + 1
	for n := s.facts.Streams; n > 0 && Process(s.budget(n)) <= memory.value && s.each(n) <= Slots(memory.value*defaultShare); n-- {
		least = n
	}
	if least > s.facts.Streams {
		return quantity{}, fault.InvalidField("scale.memory", "a server with one stream needs %s", fault.Size(int64(Process(s.budget(s.facts.Streams))))).
			WithRemedy("give servers more memory, or the query fewer lanes or a smaller shuffle_window")
	}
	return s.add("servers_by_memory", computed(float64(least), Estimate, memory, s.batch, s.row), "servers",
		"the least number whose server_memory is at most %s", fault.Size(int64(memory.value))), nil
}

// serverMemory returns the memory of a server.
func (s *sizing) serverMemory() quantity { return orAssumed(float64(s.load.Memory), assumedMemory) }

// stream checks that a server can serve one stream at its speed: a stream is not divided among servers. cores and sent are those of
// all streams.
func (s *sizing) stream(cores, sent, link quantity) error {
	streams := given(float64(s.facts.Streams))
	one := s.add("stream_network", gigabits(sent.over(streams)), "Gbit/s", "network / %d streams", s.facts.Streams).value
	if most := UsableLink * gigabits(link).value; one > most {
		return fault.InvalidField("scale.link", "one stream needs %s Gbit/s, and a link of %g Gbit/s gives it %.3g", number(one), gigabits(link).value, most).
			WithRemedy("use faster links, indexed batches, servers on the trainers' hosts, or more trainers with smaller batches")
	}
	most := float64(streamCores)
	if s.facts.Indexed {
		most = streamCoresIndexed
	}
	one = s.add("stream_cores", cores.over(given(headroom)).over(streams), "cores", "rows_per_second × row_cpu / %d streams; a stream uses at most %g", s.facts.Streams, most).value
	if one > most {
		return fault.InvalidField("scale.step", "one stream needs %s cores, and uses at most %g", number(one), most).
			WithRemedy("use indexed batches, or more trainers with smaller batches")
	}
	return nil
}

// count returns the number of servers.
func (s *sizing) count() int { return int(s.n.value) }

// each returns how many streams each of n servers has.
func (s *sizing) each(n int) int { return (s.facts.Streams + n - 1) / n }

// budget returns the memory budget of each of n servers.
func (s *sizing) budget(n int) float64 {
	return s.facts.Budget(s.each(n), s.batch.value*s.row.value)
}

// memory is that of a server, if one of the others is lost.
func (s *sizing) memory() {
	left := s.count() - 1
	streams := s.add("server_streams", computed(float64(s.each(left)), Metadata, s.n), "streams", "%s / %s, one lost", fault.Count(s.facts.Streams, "stream"), fault.Count(left, "server"))
	budget := s.add("server_budget", computed(s.budget(left), Estimate, s.n, s.batch, s.row), "B", "lanes × %s, build sides of %d × their files, %d batches of each stream", fault.Size(s.facts.LaneBytes), decoded, batchesHeld)
	s.add("server_memory", computed(Process(budget.value), budget.rests), "B", "1.25 × server_budget + 256 MiB")
	memory := s.serverMemory()
	s.add("server_slots", computed(float64(Slots(memory.value*defaultShare)), memory.rests), "streams", "max_streams, if memory is half of the machine; %g are used", streams.value)
	s.add("cache_budget", computed(s.facts.CacheBudget(left), Estimate, s.n), "B", "4 × the decoded columns or the build sides of a server, for later epochs")
}

func (s *sizing) storage() {
	f, n := s.facts, s.count()
	s.add("splits", quantity{float64(f.Splits), Metadata}, "splits", "of %d training files", f.Training.Files)
	largest := Entry{}
	for _, e := range f.Staging {
		if e.Largest > largest.Largest {
			largest = e
		}
	}
	if largest.Largest > 0 {
		s.add("build_side", quantity{float64(decoded * largest.Largest), Estimate}, "B", "the largest of %d of %s: %s of columns × %d", largest.Groups, fault.Shorten(largest.Name, 40), fault.Size(largest.Largest), decoded)
	}
	s.add("build_sides", computed(f.BuildSides(n), Estimate, s.n), "build sides", "groups of the streams, spread over %d servers", n)
	read := s.add("epoch_read", computed(f.Read(n), Estimate, s.n), "B", "%s of training columns, and build_sides", fault.Size(f.Training.StreamBytes))
	s.add("later_read", computed(f.ReadLater(n), Estimate, s.n), "B", "%s", map[bool]string{
		true: "with cache_budget: lanes keep their rows", false: "with cache_budget: lanes have other rows in each epoch (algorithm 1)",
	}[f.LanesKeepRows])
	s.add("epoch_requests", computed(f.Requests(n), Estimate, s.n), "requests", "%d for each file that a stream or a build side opens", requestsPerFile)
	rows := s.rows
	rows.value = max(1, rows.value)
	s.add("storage", read.times(s.rate).over(rows), "B/s", "epoch_read / epoch_seconds")
}

// loss is what one lost server costs.
func (s *sizing) loss() {
	n := s.count()
	s.add("loss_streams", computed(math.Ceil(s.facts.Moved(1, n)), Metadata, s.n), "streams", "that move if one server is lost")
	bytes, _ := s.facts.ReadAgain(1, n)
	s.add("loss_read", computed(bytes, Estimate, s.n), "B", "their files and build sides, again")
}

func (s *sizing) cost() {
	l, f := s.load, s.facts
	if l.ServerPrice == 0 && l.RequestPrice == 0 && l.TrafficPrice == 0 {
		return
	}
	hour := s.n.times(given(l.ServerPrice))
	if l.ServerPrice > 0 {
		s.add("cost_per_hour", hour, "", "servers × %g", l.ServerPrice)
	}
	hours := s.rows.over(s.rate).over(given(3600))
	epoch := hour.times(hours).value + f.Requests(s.count())/1e3*l.RequestPrice + s.rows.times(s.row).value/1e9*l.TrafficPrice
	s.add("cost_per_epoch", computed(epoch, Estimate, s.n, s.rows, s.rate, s.row), "",
		"servers, epoch_requests / 1000 × %g, epoch_rows × bytes of a row / 10^9 × %g", l.RequestPrice, l.TrafficPrice)
}
