package tags

import (
	"context"
	"time"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/commits"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/revision"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// The number of attempts to commit, and the first and the longest wait between them.
const (
	maxTagTries = 8
	tagWait     = 50 * time.Millisecond
	maxTagWait  = 4 * time.Second
)

// Until says how long a tag should keep a snapshot. If the tag lasts until Least or longer, it is
// not changed. Otherwise, it is set to last until Wanted.
type Until struct{ Least, Wanted time.Time }

// Tagger commits tags that keep pinned snapshots from expiring. It is safe for concurrent use.
type Tagger struct {
	source *metadata.Source
	kind   string // the type of the catalog
}

// New returns the Tagger of a catalog. Kind is the type of the catalog.
func New(source *metadata.Source, kind string) *Tagger { return &Tagger{source: source, kind: kind} }

// Tags returns an error if tags cannot be committed to the catalog.
func (g *Tagger) Tags() error {
	switch g.source.Locator.(type) {
	case locator.Swapper, locator.Updater:
		return nil
	}
	return fault.InvalidField("pin_tags", "a catalog of type %s cannot commit tags", g.kind).
		WithRemedy("leave pin_tags out, or keep the tables in a catalog of type sql or rest")
}

// Tag sets a tag that keeps the snapshot of a pinned table from expiring, and returns the time when
// the tag expires. A job that expires snapshots removes the tag once the snapshot is older than the
// tag's maximum age. It then also removes the snapshot, unless another ref needs it.
//
// The commit is retried if another commit came first or if the outcome is unknown. Tag returns
// Conflict if other writers keep committing, the errors of Source.At if the table, the snapshot or
// the schema no longer exists, and Unavailable if the catalog or its storage refuses a request.
func (g *Tagger) Tag(ctx context.Context, t *catalog.Table, until Until) (time.Time, error) {
	unknown := 0
	for try := range maxTagTries {
		if err := backoff.Wait(ctx, try, tagWait, maxTagWait); err != nil {
			return time.Time{}, err
		}
		at, outcome, err := g.tagOnce(ctx, t, until)
		switch outcome {
		case locator.Committed:
			return at, nil
		case locator.Refused:
			return time.Time{}, err
		case locator.Unknown:
			if unknown++; unknown == commits.MaxUnknown || ctx.Err() != nil {
				return time.Time{}, err
			}
		case locator.Lost:
		}
	}
	return time.Time{}, fault.New(fault.Conflict, "table %s: snapshot %d was not tagged in %d attempts, since others committed first",
		t.Name, t.Pin.Snapshot, maxTagTries).In(t.Name, "").WithRemedy("try again")
}

// tagOnce loads the table and commits the tag if necessary. If the outcome is Committed, the tag
// lasts until the returned time. If an error occurs before the commit, the outcome is Refused.
func (g *Tagger) tagOnce(ctx context.Context, t *catalog.Table, until Until) (time.Time, locator.Outcome, error) {
	held := g.source.Hold(t.Name)
	defer held.Release()
	meta, err := g.source.Load(ctx, t.Name, held)
	if err != nil {
		return time.Time{}, locator.Refused, err
	}
	snapshot, _, err := meta.Check(t.Pin)
	if err != nil {
		return time.Time{}, locator.Refused, err
	}
	if snapshot == nil {
		return time.Time{}, locator.Refused, fault.New(fault.Internal, "table %s has no snapshot to tag", t.Name).In(t.Name, "")
	}
	tag := locator.Tag{UUID: t.Pin.UUID, Name: catalog.PinTag(snapshot.SnapshotID), Snapshot: snapshot.SnapshotID}
	if err := meta.UnknownRef(tag.Name); err != nil {
		return time.Time{}, locator.Refused, err
	}
	for name, ref := range meta.Refs() {
		if name != tag.Name {
			continue
		}
		if ref.SnapshotID != tag.Snapshot || ref.SnapshotRefType != icetable.TagRef {
			return time.Time{}, locator.Refused, fault.New(fault.Conflict, "table %s has a %s called %s at snapshot %d, which is not one of Penstock's",
				t.Name, ref.SnapshotRefType, name, ref.SnapshotID).In(t.Name, "").WithRemedy("remove it, or give it another name")
		}
		tag.There = true
		if ends := meta.RefEnds(ref, snapshot); !ends.Before(until.Least) {
			return ends, locator.Committed, nil
		}
	}
	// The maximum age is that of the snapshot, not of the tag. It is rounded up, so that the tag
	// lasts at least until the wanted time.
	tag.MaxAge = max((until.Wanted.Sub(time.UnixMilli(snapshot.TimestampMs)) + time.Millisecond - 1).Truncate(time.Millisecond), time.Millisecond)
	outcome, err := g.commit(ctx, meta, tag)
	return time.UnixMilli(snapshot.TimestampMs).Add(tag.MaxAge), outcome, err
}

// commit sets a tag in the way that the catalog supports.
func (g *Tagger) commit(ctx context.Context, meta *metadata.Loaded, tag locator.Tag) (locator.Outcome, error) {
	parts, err := catalog.Parts(meta.Name)
	if err != nil {
		return locator.Refused, err
	}
	of := locator.Table{Name: meta.Name, Parts: parts, Most: g.source.Most, Charge: meta.File.Charge}
	switch tables := g.source.Locator.(type) {
	case locator.Updater:
		return tables.SetTag(ctx, of, tag)
	case locator.Swapper:
		to := meta.File
		to.Location = revision.NextLocation(meta.File.Location)
		content, err := revision.TagFile(meta, tag, to.Location, g.source.Now())
		if err != nil {
			return locator.Refused, err
		}
		outcome, err := commits.File(ctx, g.source, to, content, func() (locator.Outcome, error) {
			return tables.Swap(ctx, of, meta.File.Location, to.Location)
		})
		return outcome, fault.Op(err, "tag a snapshot of table %s", meta.Name)
	}
	return locator.Refused, g.Tags()
}
