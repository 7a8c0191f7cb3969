package ui

import (
	"context"
	"html/template"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/internal/svg"
)

// maxCached is the maximum number of cached files of a replica on a page.
const maxCached = 200

// memoryBody is the page of memory and caches.
type memoryBody struct{ Replicas []replicaMemory }

// replicaMemory is the memory of a replica.
type replicaMemory struct {
	ID, Name, Failure string
	Own               bool // the viewer may not see the memory of the server
	Facts             []fact
	Picture           template.HTML
	Gauges            string // names and bytes of the curves, as JSON
	Cached            []flight.CachedFile
	More              int    // cached files that are not listed
	CacheFailure      string // why cached files are not known
}

// gauge is the current value of a curve.
type gauge struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

func (p *pages) memory(ctx context.Context, _ *http.Request) (shown, error) {
	all, err := p.statuses(ctx)
	if err != nil {
		return shown{}, err
	}
	out := make([]replicaMemory, len(all))
	var group errgroup.Group
	group.SetLimit(maxCalls)
	for i, one := range all {
		out[i] = one.memory(i)
		if one.Cache == nil {
			continue
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, replicaTime)
			defer cancel()
			out[i].addCache(one.watched.CacheList(ctx))
			return nil
		})
	}
	_ = group.Wait() // the failures are on the page
	return shown{Title: "Memory", Section: "memory", Every: refresh, Body: memoryBody{out}}, nil
}

// memory describes the memory of a replica, without its cached files.
func (one replica) memory(number int) replicaMemory {
	out := replicaMemory{ID: "memory-" + strconv.Itoa(number), Name: one.Name, Failure: one.Failure, Own: one.Failure == "" && one.Memory == nil}
	add := func(name, value string) { out.Facts = append(out.Facts, fact{name, value}) }
	if m := one.Memory; m != nil {
		work := max(0, m.Used-m.Idle-m.InFlight)
		add("In use", memoryText(*m))
		add("Most so far", fault.Size(m.Peak))
		of := []gauge{{"streams at work", work}, {"batches in flight", m.InFlight}, {"idle, kept for later", m.Idle}}
		out.Gauges = string(jsontext.Of(of))
		if whole := max(m.Limit, m.Used); whole > 0 {
			var parts []svg.Share
			for _, g := range of {
				parts = append(parts, svg.Share{Name: g.Name, Of: float64(g.Value) / float64(whole)})
			}
			parts = append(parts, svg.Share{Name: "free", Of: float64(whole-m.Used) / float64(whole)})
			out.Picture = inline(svg.Shares{Title: "memory of " + one.Name + " by purpose", Of: parts}.Draw())
		}
	}
	if c := one.Cache; c != nil {
		add("Decoded columns", fault.Size(c.Bytes)+" of "+fault.Size(c.Limit)+", "+fault.Count(c.Files, "file"))
		add("Build sides", svg.Count(c.BuildSides)+", "+fault.Size(c.BuildSideBytes))
		if c.DiskLimit > 0 {
			add("Columns on disk", fault.Size(c.DiskBytes)+" of "+fault.Size(c.DiskLimit))
		}
	}
	return out
}

// addCache adds the cached files, the largest first.
func (m *replicaMemory) addCache(list flight.CacheList, err error) {
	if err != nil {
		m.CacheFailure = failureOf(err).Message
		return
	}
	slices.SortStableFunc(list.Files, func(a, b flight.CachedFile) int { return int(min(1, max(-1, b.Bytes-a.Bytes))) })
	m.More = max(0, len(list.Files)-maxCached)
	m.Cached = list.Files[:len(list.Files)-m.More]
}
