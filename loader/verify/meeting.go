package verify

import (
	"context"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

const (
	examples  = 5        // keys that a report shows of each kind
	maxPasses = 1 << 12  // over the keys of one group of files
	mostHeld  = 1 << 30  // bytes of keys held at a time where the budget has no limit
	firstRoom = 1 << 12  // keys that room is made for at first
	budgetCut = 4        // what part of a budget the keys may have: its inverse
	noTime    = int64(0) // of rows where no rule looks at times
	never     = math.MinInt64
)

// meeting is one staging table's keys meeting the training rows.
type meeting struct {
	*verifier
	relation resolve.Staging
	files    []catalog.File
	layouts  []*layout // of files
	listed   []int     // field ids of the columns that the catalog was asked about
	columns  sides
	checked  []bool // by file: its layout was looked at
	sum      Join
	doubles  spots
	orphans  spots
}

// sides are the columns that are read of both tables, and where the key and
// the time are among them.
type sides struct {
	staging, training         []catalog.Field
	stagingKey, trainingKey   []int
	stagingTime, trainingTime int // -1: none
}

// meeting prepares what is read of a staging table.
func (v *verifier) meeting(ctx context.Context, i int) (*meeting, error) {
	r := v.plan.Relation.Staging[i]
	m := &meeting{verifier: v, relation: r, columns: sides{stagingTime: -1, trainingTime: -1}}
	c := &m.columns
	keys := map[int]bool{}
	for _, k := range r.Keys {
		keys[k.Staging.ID] = true
		c.staging, c.training = withField(c.staging, k.Staging), withField(c.training, k.Training)
		c.stagingKey = append(c.stagingKey, fieldAt(c.staging, k.Staging))
		c.trainingKey = append(c.trainingKey, fieldAt(c.training, k.Training))
	}
	if r.Time != nil {
		c.staging, c.training = withField(c.staging, r.Time.Staging), withField(c.training, r.Time.Training)
		c.stagingTime, c.trainingTime = fieldAt(c.staging, r.Time.Staging), fieldAt(c.training, r.Time.Training)
	}
	for _, name := range r.Rows.Columns() {
		if f, ok := r.Pinned.Field(name); ok {
			c.staging = withField(c.staging, f)
		}
	}
	if err := m.list(ctx, keys); err != nil {
		return nil, err
	}
	m.checked = make([]bool, len(m.files))
	m.sum.Passes = 1
	m.sum.Duplicates, m.sum.Orphans = []Key{}, []Key{}
	return m, nil
}

// list finds the files and their layouts. The buckets of other columns than
// those of the key are looked at too, if they can be read.
func (m *meeting) list(ctx context.Context, keys map[int]bool) error {
	c, t := &m.columns, m.relation.Pinned
	needed, err := m.listing(ctx, t, c.staging)
	if err != nil {
		return err
	}
	m.files, m.listed = needed.Files, needed.Columns
	all := slices.Clone(c.staging)
	for _, f := range m.files {
		l := newLayout(t, f, keys)
		m.layouts = append(m.layouts, l)
		for _, column := range l.columns() {
			all = withField(all, column)
		}
	}
	if len(all) == len(c.staging) {
		return nil
	}
	listing, err := m.listing(ctx, t, all)
	switch {
	case err == nil:
		c.staging, m.listed = all, listing.Columns
	case m.refused(m.relation.Name, err):
		for _, l := range m.layouts {
			l.keep(c.staging)
		}
	default:
		return err
	}
	return nil
}

// all reads every cluster and sums up.
func (m *meeting) all(ctx context.Context, i int) error {
	for _, c := range clusters(m.plan, i, m.files) {
		if err := m.cluster(ctx, c); err != nil {
			return err
		}
	}
	var err error
	if m.sum.Duplicates, err = m.shown(ctx, m.doubles); err != nil {
		return err
	}
	m.sum.Orphans, err = m.shown(ctx, m.orphans)
	return err
}

// cluster reads one cluster, in as many passes as memory needs.
func (m *meeting) cluster(ctx context.Context, c cluster) error {
	for passes := uint64(1); ; passes *= 2 {
		sum, doubles, orphans := m.sum, slices.Clone(m.doubles), slices.Clone(m.orphans)
		var err error
		for number := uint64(0); number < passes && err == nil; number++ {
			err = m.pass(ctx, c, pass{meeting: m, number: number, of: passes})
		}
		if err == nil {
			m.sum.Passes = max(m.sum.Passes, int(passes))
			return nil
		}
		if fault.KindOf(err) != fault.Exhausted || passes >= maxPasses {
			return err
		}
		m.sum, m.doubles, m.orphans = sum, doubles, orphans // as if the passes had not begun
	}
}

// pass is one reading of a cluster, for a part of its keys.
type pass struct {
	*meeting
	*ledger
	number, of uint64
	names      namer
}

// mine says whether a key belongs to the pass.
func (p *pass) mine(name keyName) bool { return name.low%p.of == p.number }

// first says whether rows that have no key are counted.
func (p *pass) first() bool { return p.number == 0 }

// pass reads the keys of a cluster that are the pass's, and the training rows
// that may ask for them.
func (m *meeting) pass(ctx context.Context, c cluster, p pass) (err error) {
	if p.ledger, err = newLedger(m.options.Budget, m.relation.Name, firstRoom, m.most()); err != nil {
		return err
	}
	defer p.release()
	for _, file := range c.files {
		if err := p.collect(ctx, file); err != nil {
			return err
		}
	}
	p.close()
	for _, split := range c.splits {
		if err := p.ask(ctx, split); err != nil {
			return err
		}
	}
	m.count(p.ledger)
	return nil
}

// most is how many keys are held at a time.
func (m *meeting) most() int {
	if limit := m.options.Budget.Limit(); limit >= 0 {
		return int(limit / budgetCut / heldBytes)
	}
	return int(mostHeld / heldBytes)
}

// collect puts the keys of one file into the ledger, and checks its layout if
// that was not done.
func (p *pass) collect(ctx context.Context, file int) error {
	f := p.files[file]
	var kept []int32
	source := plan.Source{Table: p.relation.Pinned, Planned: p.listed, Files: []plan.FileRange{{File: f, To: f.Rows}}}
	whole, err := p.read(ctx, p.relation.Name, source, p.columns.staging, func(rows arrow.RecordBatch, from int64) (err error) {
		if !p.checked[file] {
			if err := p.layouts[file].check(rows, from); err != nil {
				return err
			}
		}
		if kept, err = p.relation.Rows.Evaluate(rows, kept); err != nil {
			return err
		}
		p.names.load(rows, p.columns.stagingKey)
		for _, row := range kept {
			if err := p.hold(rows, int(row), spot{int32(file), from + int64(row)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		p.checked[file] = true
		p.layouts[file].file.Unread = p.layouts[file].file.Unread || !whole
	}
	return err
}

// hold takes one staging row.
func (p *pass) hold(rows arrow.RecordBatch, row int, at spot) error {
	if p.first() {
		p.sum.Rows++
	}
	time, timed := timeAt(rows, p.columns.stagingTime, row)
	if !timed || p.names.null(row) {
		if p.first() {
			p.sum.NullRows++
		}
		return nil
	}
	name, err := p.names.name(row)
	if err != nil || !p.mine(name) {
		return err
	}
	return p.add(name, time, at)
}

// timeAt returns the time of a row; false if it has none.
func timeAt(rows arrow.RecordBatch, column, row int) (int64, bool) {
	if column < 0 {
		return noTime, true
	}
	a := rows.Column(column)
	if a.IsNull(row) {
		return noTime, false
	}
	return integerAt(a, row)
}

// ask looks up the training rows of a split.
func (p *pass) ask(ctx context.Context, split int) error {
	whole := p.plan.Training(plan.Range{Split: split, To: p.plan.Splits[split].Rows})
	whole.Checked = nil
	for _, file := range whole.Files {
		source := whole
		source.Files = []plan.FileRange{file}
		_, err := p.read(ctx, trainingName, source, p.columns.training, func(rows arrow.RecordBatch, _ int64) error {
			p.names.load(rows, p.columns.trainingKey)
			for row := range int(rows.NumRows()) {
				if err := p.look(rows, row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// look counts one training row.
func (p *pass) look(rows arrow.RecordBatch, row int) error {
	if p.names.null(row) {
		if p.first() {
			p.sum.TrainingRows++
			p.sum.Missing++
			p.sum.NullKeys++
		}
		return nil
	}
	name, err := p.names.name(row)
	if err != nil || !p.mine(name) {
		return err
	}
	p.sum.TrainingRows++
	if time, timed := timeAt(rows, p.columns.trainingTime, row); p.match(p.entries(name), time, timed) {
		p.sum.Matched++
	} else {
		p.sum.Missing++
	}
	return nil
}

// match says whether a training row matches an entry of its key, and marks it.
func (m *meeting) match(entries []heldKey, time int64, timed bool) bool {
	if len(entries) == 0 {
		return false
	}
	entries[0].wanted = true
	rule := m.relation.Time
	if rule == nil {
		entries[0].asked = true
		return true
	}
	if !timed {
		return false
	}
	after, _ := slices.BinarySearchFunc(entries, time, func(k heldKey, t int64) int {
		if k.time < t || k.time == t && rule.Exact {
			return -1
		}
		return 1
	})
	oldest := time - rule.Tolerance
	if oldest > time { // beyond all times
		oldest = never
	}
	if after == 0 || entries[after-1].time < oldest {
		return false
	}
	entries[after-1].asked = true
	return true
}
