package htmlpage

import (
	"html/template"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/entries"
)

// joined shows the staging entries of a dataset.
type joined struct {
	Entries   []entry
	Partition string
	Rates     []template.HTML // match rates over partitions, of maxLines entries each
}

// entry shows one staging entry. Texts are empty if they are unknown.
type entry struct {
	Name, Table, Rate, Matched, NullKeys, Duplicates string
	Rows, Keys, Repeated, Orphans                    string
	MedianAge, LateAge, Note                         string
}

// datasetSubject returns a dataset as a subject. Its columns are those of the training table, and then those of the entries, and their
// ages.
func datasetSubject(r *entries.Result) subject {
	s := subject{
		name: r.Dataset, rows: r.Rows, sample: r.Sample, quantiles: r.Names, notDescribed: r.Left, against: r.Against, label: r.Label,
		facts: []fact{{Name: "Training table", Value: svg.Printable(r.Training, maxName)}, {Name: "Snapshot", Value: snapshot(r.Snapshot)}},
	}
	s.columns = append(s.columns, r.Columns...)
	for _, e := range r.Entries {
		s.columns = append(s.columns, e.Columns...)
		if e.Age != nil {
			s.columns = append(s.columns, *e.Age)
			s.ages++
		}
	}
	return s
}

// newJoined returns what the page shows of the entries of a dataset.
func newJoined(r *entries.Result) *joined {
	out := &joined{Partition: svg.Printable(r.Partition, maxName)}
	places := make([]string, len(r.Partitions))
	at := map[string]int{}
	for i, p := range r.Partitions {
		places[i], at[p.Partition] = p.Partition, i
	}
	var rates []svg.Series
	for _, e := range r.Entries {
		out.Entries = append(out.Entries, newEntry(e))
		if len(e.Partitions) < 2 { //nolint:mnd // one is no line
			continue
		}
		one := svg.Series{Name: e.Name, Values: gaps(len(places)), Marked: badDays(r.Against, e.Name, at)}
		for _, p := range e.Partitions {
			if i, ok := at[p.Partition]; ok && p.Rows > 0 {
				one.Values[i] = p.MatchRate
			}
		}
		rates = append(rates, one)
	}
	for from := 0; from < len(rates); from += maxLines {
		chart := svg.Lines{Title: "Match rates of each partition", X: places, Zero: true, Label: svg.Percent, Series: rates[from:min(from+maxLines, len(rates))]}
		out.Rates = append(out.Rates, inline(chart.Draw()))
	}
	return out
}

// badDays returns the positions of the partitions whose match rate is an alarm.
func badDays(c *statistics.Comparison, entry string, at map[string]int) (out []int) {
	if c == nil {
		return nil
	}
	for _, a := range c.Changes {
		if i, ok := at[a.Partition]; ok && a.Alarm && a.Measure == drift.MatchRate && a.Column == entry {
			out = append(out, i)
		}
	}
	return out
}

func newEntry(e entries.Entry) entry {
	out := entry{Name: svg.Printable(e.Name, maxName), Table: svg.Printable(e.Table, maxName)}
	if e.Promoted {
		out.Rate = "promoted"
	}
	out.Note = svg.Printable(e.Note, maxText)
	if m := e.Matches; m != nil {
		out.Rate, out.Matched, out.NullKeys, out.Duplicates = svg.Percent(m.MatchRate), svg.Count(m.Matched), svg.Count(m.NullKeys), svg.Count(m.Duplicates)
	}
	if k := e.Keys; k != nil {
		out.Rows, out.Keys, out.Repeated, out.Orphans = svg.Count(k.Rows), svg.Count(k.Keys), svg.Count(k.DuplicateKeys), svg.Count(k.OrphanKeys)
	}
	if e.Age != nil && len(e.Age.Quantiles) > 0 {
		age := func(v stats.Value) string { return svg.Printable(e.AgeText(v), maxCell) }
		out.MedianAge, out.LateAge = age(e.Age.Quantiles[len(e.Age.Quantiles)/2]), age(e.Age.Quantiles[len(e.Age.Quantiles)-1]) //nolint:mnd // the median
	}
	return out
}
