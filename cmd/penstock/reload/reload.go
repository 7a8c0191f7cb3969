// Package reload applies changes of the config file to a running server.
package reload

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/cmd/penstock/auth"
	"github.com/penstock/penstock/cmd/penstock/watch"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// maxCheckTime bounds the time that a reload spends on planning new and changed datasets. A dataset
// that could not be planned in this time is served anyway.
const maxCheckTime = time.Minute

// configFiles is the name of the config file's group in the watcher.
const configFiles = "the configuration"

// Reloader applies changes of the config file to a running server. If the server accepts the
// file, all of its datasets take effect at the same time. If the server refuses the file, nothing
// changes. A reload does not affect open streams, or the tickets and cursors of unchanged datasets.
//
// Catalogs and server settings take effect only when the server starts. A file with different
// catalogs is refused, because the name of a table could then refer to another table. If settings
// have changed, their names are logged.
type Reloader struct {
	Options
	count   func(telemetry.Reload) // counts reloads in metrics; nil: the file is not watched
	reloads status
}

// Options configure a Reloader. All fields are required.
type Options struct {
	Read      func() (*config.Config, error) // reads the config file again
	ReadLists func(*config.Config) error     // reads the files of the datasets' fitted lists
	Loader    *loader.Loader                 // serves the datasets
	Log       *slog.Logger
	Started   *config.Config // the configuration that the server started with
	Clock     func() time.Time
}

// New returns a Reloader that does nothing before Watch.
func New(o Options) *Reloader { return &Reloader{Options: o} }

// status counts the reloads and holds the result of the last one.
type status struct {
	mu   sync.Mutex
	last flight.ConfigStatus
}

// note records the result of a reload.
func (s *status) note(came telemetry.Reload, at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.Current, s.last.Last, s.last.Error = came == telemetry.ReloadWhole, at.UTC(), ""
	if err == nil {
		s.last.Applied++
		return
	}
	s.last.Refused++
	s.last.Error = fault.Shorten(fault.Redact(err.Error()), maxReloadError)
}

// read returns the status of the reloads.
func (s *status) read() flight.ConfigStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// maxReloadError bounds the error of a reload in the status, in bytes.
const maxReloadError = 1024

// Status returns the function that reads the reload status for the action status; nil if the file
// is not watched.
func (r *Reloader) Status() func() flight.ConfigStatus {
	if r.count == nil {
		return nil
	}
	return r.reloads.read
}

// Watch makes a watcher load the config file whenever it changes. The watcher also loads the file
// now, in case it has changed since the server read it. A pipe is not watched, because it cannot be
// read again. If both the policy and the config file change, the policy is loaded first, so that
// the old rules never apply to new datasets. If the file is watched, counting returns the function that counts loads.
func (r *Reloader) Watch(ctx context.Context, w *watch.Watcher, counting func() func(telemetry.Reload)) error {
	file := r.Started.File
	if !isWatched(file) {
		r.Log.Warn("the config file is not a regular file: changes need a restart", "file", file)
		return nil
	}
	if err := w.Load(ctx, watch.LoadedFiles{What: configFiles, Paths: []string{file}, Load: r.load, After: auth.PolicyFiles}); err != nil {
		return err
	}
	r.count, r.reloads.last.Current = counting(), true
	return nil
}

// LoadedLast returns the name, in the watcher, of the group that is loaded last when both the
// policy and the config file change.
func (r *Reloader) LoadedLast() string {
	if isWatched(r.Started.File) {
		return configFiles
	}
	return auth.PolicyFiles
}

// isWatched reports whether a file can be watched. A pipe cannot, because its content can be read
// only once. A missing file can, because it may appear later.
func isWatched(file string) bool {
	stat, err := os.Stat(file)
	return err != nil || stat.Mode().IsRegular()
}

// load reads the config file and applies it. Calls must not overlap.
func (r *Reloader) load(ctx context.Context) error {
	came := telemetry.ReloadRefused
	next, err := r.Read()
	if err == nil {
		err = r.ReadLists(next)
	}
	if err == nil {
		came, err = r.apply(ctx, next)
	}
	if r.count != nil {
		r.count(came)
		r.reloads.note(came, r.Clock(), err)
	}
	return err
}

// apply makes the server use the datasets of a configuration, or returns an error if it refuses the
// configuration.
func (r *Reloader) apply(ctx context.Context, next *config.Config) (telemetry.Reload, error) {
	if names := r.Started.CatalogsUnlike(next); len(names) > 0 {
		return telemetry.ReloadRefused, fault.New(fault.Invalid, "catalogs differ from those in use: %s", strings.Join(names, ", ")).In("", next.File).
			WithRemedy("restart the server, which opens its catalogs when it starts; until then, it serves the datasets that it had before")
	}
	change := unlikeDatasets(r.Loader.Datasets(), next.Datasets)
	if err := r.check(ctx, change); err != nil {
		return telemetry.ReloadRefused, fault.Op(err, "%s", next.File)
	}
	r.Loader.SetDatasets(next.Datasets)
	if !change.none() {
		r.Log.Info("datasets changed", "added", names(change.added), "changed", names(change.changed), "removed", names(change.removed))
	}
	if settings := r.Started.SettingsUnlike(next); len(settings) > 0 {
		r.Log.Warn("settings in the config file are used after a restart", "file", next.File, "settings", settings)
		return telemetry.ReloadPartly, nil
	}
	return telemetry.ReloadWhole, nil
}

// datasetChange is the difference between two lists of datasets.
type datasetChange struct {
	added, changed, removed []dataset.Dataset
	before                  map[string]dataset.Dataset // by name
}

func (c datasetChange) none() bool { return len(c.added)+len(c.changed)+len(c.removed) == 0 }

// unlikeDatasets compares two lists of datasets.
func unlikeDatasets(before, after []dataset.Dataset) datasetChange {
	c := datasetChange{before: map[string]dataset.Dataset{}}
	for _, d := range before {
		c.before[d.Name] = d
	}
	kept := map[string]bool{}
	for _, d := range after {
		kept[d.Name] = true
		switch was, there := c.before[d.Name]; {
		case !there:
			c.added = append(c.added, d)
		case was.Digest() != d.Digest():
			c.changed = append(c.changed, d)
		}
	}
	for _, d := range before {
		if !kept[d.Name] {
			c.removed = append(c.removed, d)
		}
	}
	return c
}

func names(datasets []dataset.Dataset) []string {
	out := make([]string, len(datasets))
	for i, d := range datasets {
		out[i] = d.Name
	}
	return out
}

// check returns an error if a dataset could be read before the change, and its new definition is
// invalid or names something that does not exist. Other datasets that cannot be read are only
// logged: their tables may be created later, or storage may be down.
func (r *Reloader) check(ctx context.Context, c datasetChange) error {
	ctx, cancel := context.WithTimeout(ctx, maxCheckTime)
	defer cancel()
	var failures []error
	for _, d := range c.changed {
		err := r.plan(ctx, d)
		if kind := fault.KindOf(err); err != nil && (kind == fault.Invalid || kind == fault.NotFound) && r.plan(ctx, c.before[d.Name]) == nil {
			failures = append(failures, err)
			continue
		}
		r.warn(d, err)
	}
	if len(failures) > 0 {
		return fault.Together(failures)
	}
	for _, d := range c.added {
		r.warn(d, r.plan(ctx, d))
	}
	return nil
}

func (r *Reloader) warn(d dataset.Dataset, err error) {
	if err != nil {
		r.Log.Warn("dataset cannot be read", "dataset", d.Name, "error", err)
	}
}

// plan plans a query for all rows of a dataset, and returns the error.
func (r *Reloader) plan(ctx context.Context, d dataset.Dataset) error {
	_, err := r.Loader.Plan(ctx, dataset.Query{Rows: dataset.Rows{Inline: &d}})
	return err
}
