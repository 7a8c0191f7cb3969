package icebergcat

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// TagPrefix begins the names of tags that keep pinned snapshots; a snapshot's id follows.
// All servers share the tag of a snapshot.
const TagPrefix = "penstock-"

// How often a commit is tried that others were faster than, how many of those tries may
// be such that nobody knows what became of them (each of which may have taken as long as a
// question may), and how long the first wait before the next try is at the most; it doubles.
const (
	mostTagTries = 8
	mostUnknown  = 3
	tagWait      = 50 * time.Millisecond
)

// Until is for how long a tag is to keep a snapshot: one that holds until Least at the
// earliest is left alone; another one is set to hold until Wanted.
type Until struct{ Least, Wanted time.Time }

// Tags says whether tags can be committed to the catalog: an error says why not.
func (c *Catalog) Tags() error {
	switch c.tables.(type) {
	case locator.Swapper, locator.Committer:
		return nil
	}
	return fault.InvalidField("pin_tags", "a catalog of type %s has nothing that tags could be committed to", c.options.Type).
		WithRemedy("leave pin_tags out, or keep the tables in a catalog of type sql or rest")
}

// Tag keeps the snapshot of a pinned table from expiring, by a tag of its own, and returns
// until when that holds. Whoever expires snapshots removes a tag once its snapshot is older
// than the tag's maximum age, and then the snapshot, unless something else needs it.
//
// A lost race is tried again, and so is a commit of which nobody knows what became of it;
// what others commit the whole time is Conflict. A table, snapshot or schema that is gone
// is what At says. What the catalog or its storage refuses is Unavailable.
func (c *Catalog) Tag(ctx context.Context, t *catalog.Table, until Until) (time.Time, error) {
	unknown := 0
	for try := range mostTagTries {
		if try > 0 {
			if err := pause(ctx, tagWait<<(try-1)); err != nil {
				return time.Time{}, err
			}
		}
		at, outcome, err := c.tagOnce(ctx, t, until)
		switch outcome {
		case locator.Committed:
			return at, nil
		case locator.Refused:
			return time.Time{}, err
		case locator.Unknown:
			if unknown++; unknown == mostUnknown || ctx.Err() != nil {
				return time.Time{}, err
			}
		case locator.Lost:
		}
	}
	return time.Time{}, fault.New(fault.Conflict, "table %s: others committed each time that snapshot %d was to be tagged, %d times",
		t.Name, t.Pin.Snapshot, mostTagTries).In(t.Name, "").WithRemedy("try again")
}

// pause waits for a random part of most.
func pause(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(most)))) //nolint:gosec // who raced comes back apart
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tagOnce looks at a table as it is now and commits the tag, if that is needed: Committed
// says that the tag holds until the time returned. What the look finds wrong is Refused.
func (c *Catalog) tagOnce(ctx context.Context, t *catalog.Table, until Until) (time.Time, locator.Outcome, error) {
	held := c.hold(t.Name)
	defer held.Release()
	meta, err := c.load(ctx, t.Name, held)
	if err != nil {
		return time.Time{}, locator.Refused, err
	}
	snapshot, _, err := meta.check(t.Pin)
	if err != nil {
		return time.Time{}, locator.Refused, err
	}
	if snapshot == nil {
		return time.Time{}, locator.Refused, fault.New(fault.Internal, "table %s has no snapshot to tag", t.Name).In(t.Name, "")
	}
	tag := locator.Tag{UUID: t.Pin.UUID, Name: TagPrefix + strconv.FormatInt(snapshot.SnapshotID, 10), Snapshot: snapshot.SnapshotID}
	for name, ref := range meta.Refs() {
		if name != tag.Name {
			continue
		}
		if ref.SnapshotID != tag.Snapshot || ref.SnapshotRefType != icetable.TagRef {
			return time.Time{}, locator.Refused, fault.New(fault.Conflict, "table %s has a %s called %s at snapshot %d, which is not one of Penstock's",
				t.Name, ref.SnapshotRefType, name, ref.SnapshotID).In(t.Name, "").WithRemedy("remove it, or give it another name")
		}
		tag.There = true
		if ends := meta.tagEnds(ref, snapshot); !ends.Before(until.Least) {
			return ends, locator.Committed, nil
		}
	}
	// The age is that of the snapshot, whenever the tag was set. It is rounded up: what was
	// wanted is what the next look finds.
	tag.MaxAge = max((until.Wanted.Sub(time.UnixMilli(snapshot.TimestampMs)) + time.Millisecond - 1).Truncate(time.Millisecond), time.Millisecond)
	outcome, err := c.commit(ctx, meta, tag)
	return time.UnixMilli(snapshot.TimestampMs).Add(tag.MaxAge), outcome, err
}

// propertyMaxRefAge is how old the snapshot of a ref may become that does not say it.
const propertyMaxRefAge = "history.expire.max-ref-age-ms"

// tagEnds is when whoever expires snapshots may remove a tag.
func (m *loaded) tagEnds(ref icetable.SnapshotRef, of *icetable.Snapshot) time.Time {
	age := int64(math.MaxInt64)
	if n, err := strconv.ParseInt(m.Properties()[propertyMaxRefAge], 10, 64); err == nil {
		age = n
	}
	if ref.MaxRefAgeMs != nil {
		age = *ref.MaxRefAgeMs
	}
	if age > math.MaxInt64-of.TimestampMs {
		age = math.MaxInt64 - of.TimestampMs
	}
	return time.UnixMilli(of.TimestampMs + age)
}

// commit sets a tag in the catalog, as its kind has it.
func (c *Catalog) commit(ctx context.Context, meta *loaded, tag locator.Tag) (locator.Outcome, error) {
	parts, err := catalog.Parts(meta.name)
	if err != nil {
		return locator.Refused, err
	}
	of := locator.Table{Name: meta.name, Parts: parts, Most: c.options.MaxMetadata, Charge: meta.file.charge}
	switch tables := c.tables.(type) {
	case locator.Committer:
		return tables.SetTag(ctx, of, tag)
	case locator.Swapper:
		return c.rewrite(ctx, tables, of, meta, tag)
	}
	return locator.Refused, c.Tags()
}

// rewriteCopies is how many times the text of metadata is held while it is written anew:
// in parts, as a text, and packed. What it costs to be parsed comes on top.
const rewriteCopies = 3

// mostRemoving bounds how long a stream that may have ended waits for a file to be removed.
const mostRemoving = 10 * time.Second

// rewrite writes a metadata file that has the tag, and has the catalog name it. A file that
// the catalog does not name is removed again; where nobody knows whether it does, the file
// stays: it is small, and whoever removes orphan files removes it.
func (c *Catalog) rewrite(ctx context.Context, tables locator.Swapper, of locator.Table, meta *loaded, tag locator.Tag) (locator.Outcome, error) {
	if err := meta.file.charge(rewriteCopies * int64(len(meta.text))); err != nil {
		return locator.Refused, err
	}
	to := following(meta.location)
	content, err := c.rewritten(meta, tag, to)
	if err != nil {
		return locator.Refused, err
	}
	files, err := c.access.files(meta.location)
	if err != nil {
		return locator.Refused, err
	}
	writer, ok := files.(store.Writer)
	if !ok {
		return locator.Refused, fault.As(store.ReadOnly(to)).In(of.Name, to)
	}
	if err := writer.Create(ctx, to, content); err != nil {
		store.WhenReturned(err, meta.file.held.Split(meta.file.held.Held()).Release)
		return locator.Refused, fault.As(fault.Op(err, "tag a snapshot of table %s", of.Name)).In(of.Name, to)
	}
	outcome, err := locator.Refused, c.written(ctx, meta, to, content)
	if err == nil {
		outcome, err = tables.Swap(ctx, of, meta.location, to)
	}
	if outcome == locator.Lost || outcome == locator.Refused {
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), mostRemoving)
		defer cancel()
		_ = writer.Remove(removing, to) // what stays is an orphan, and no harm
	}
	return outcome, err
}

// written reads back what was written. A catalog that named a file which is not there, or
// not whole, would have lost its table: whatever stands before storage may have answered
// for it.
func (c *Catalog) written(ctx context.Context, meta *loaded, to string, content []byte) error {
	file := meta.file
	file.location = to
	there, err := c.read(ctx, c.access, file)
	if err == nil && !bytes.Equal(there, content) {
		err = fault.New(fault.Unavailable, "file %s has other bytes than were written", to)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := fault.New(fault.Unavailable, "tag a snapshot of table %s: storage took a file and does not have it: %w", meta.name, err).In(meta.name, to)
	return e.WithRemedy("see what answers in the place of the store; the catalog and its table are as they were")
}

// rewritten is a new metadata file, which has been read as readers will.
func (c *Catalog) rewritten(meta *loaded, tag locator.Tag, location string) ([]byte, error) {
	text, err := meta.tagged(tag, c.now())
	if err != nil {
		return nil, corrupt(meta.name, meta.location, "metadata of table %s cannot be read: %w", meta.name, err)
	}
	if err := meta.file.parsing(text); err != nil {
		return nil, err
	}
	read, err := icetable.ParseMetadataBytes(text)
	if err != nil {
		return nil, fault.New(fault.Internal, "the metadata of table %s would not be read again: %w", meta.name, err).In(meta.name, location)
	}
	same := read.TableUUID() == meta.TableUUID() && read.Version() == meta.Version() && len(read.Snapshots()) == len(meta.Snapshots())
	refs := 0
	for name, ref := range read.Refs() {
		refs++
		if name == tag.Name {
			same = same && ref.SnapshotID == tag.Snapshot && ref.MaxRefAgeMs != nil && *ref.MaxRefAgeMs == tag.MaxAge.Milliseconds()
		}
	}
	for range meta.Refs() {
		refs--
	}
	if more := map[bool]int{false: 1, true: 0}[tag.There]; !same || refs != more {
		return nil, fault.New(fault.Internal, "the metadata of table %s would be another one", meta.name).In(meta.name, location)
	}
	return pack(location, text)
}

// now is the time as the options have it.
func (c *Catalog) now() time.Time {
	if c.options.Clock == nil {
		return time.Time{} // metadata is then as old as it was
	}
	return c.options.Clock()
}
