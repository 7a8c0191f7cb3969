package commits

import (
	"context"
	"fmt"
	"slices"

	icetable "github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/puffin"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/revision"
	"github.com/penstock/penstock/loader/catalog/locator"
)

var _ commit.StatisticsKeeper = (*TableWriter)(nil)

// keepingStatistics is one call of KeepStatistics.
type keepingStatistics struct {
	writing
	keep commit.SnapshotStatistics
}

// KeepStatistics keeps statistics of a snapshot. See commit.StatisticsKeeper.
func (w *TableWriter) KeepStatistics(ctx context.Context, keep commit.SnapshotStatistics) (location string, err error) {
	if err := w.MayWrite(keep.Table); err != nil {
		return "", err
	}
	if err := keep.Check(); err != nil {
		return "", err
	}
	ctx, done, err := w.takeTurn(ctx, keep.Table)
	if err != nil {
		return "", err
	}
	defer done()
	k := &keepingStatistics{keep: keep}
	k.source, k.table, k.prefix = w.source, keep.Table, commit.FilePrefix(uuid.NewString())
	err = k.repeat(ctx, fmt.Sprintf("the statistics of table %s were not kept", keep.Table), func(ctx context.Context) (done bool, err error) {
		location, done, err = k.once(ctx)
		return done, err
	})
	return location, fault.Op(err, "keep statistics of snapshot %d of table %s", keep.Snapshot, keep.Table)
}

// once makes one attempt. It returns true if the table has the statistics file of an earlier attempt.
func (k *keepingStatistics) once(ctx context.Context) (string, bool, error) {
	held := k.source.Hold(k.table)
	defer held.Release()
	meta, err := k.source.Load(ctx, k.table, held)
	if err != nil {
		return "", false, err
	}
	k.last = meta
	if uuid := meta.TableUUID().String(); k.keep.UUID != "" && uuid != k.keep.UUID {
		return "", false, catalog.RecreatedTable(k.table, k.keep.UUID, uuid)
	}
	if err := meta.Servable(); err != nil {
		return "", false, err
	}
	snapshot := meta.SnapshotByID(k.keep.Snapshot)
	if snapshot == nil {
		return "", false, catalog.ExpiredSnapshot(k.table, k.keep.Snapshot).WithRemedy("describe a snapshot that the table still has")
	}
	present := statisticsOf(meta, snapshot.SnapshotID)
	if present != nil && k.made(meta, present.StatisticsPath) {
		return present.StatisticsPath, true, nil
	}
	if k.refused != nil && k.at == state(meta) {
		return "", false, k.refused
	}
	a := k.begin(0)
	kept, err := k.write(ctx, meta, a, snapshot, present)
	if err != nil {
		return "", false, err
	}
	outcome, err := k.send(ctx, meta, a, revision.Revision{Statistics: kept})
	_, err = k.outcome(meta, a, outcome, err)
	return "", false, err
}

// made reports whether a statistics file is that of an attempt. It then settles the attempts.
func (k *keepingStatistics) made(meta *metadata.Loaded, location string) bool {
	at := slices.IndexFunc(k.attempts, func(a *attempt) bool { return a.list == location })
	if at < 0 {
		return false
	}
	// A request to an Updater has no condition that fails later, so that its file must stay.
	if _, swaps := k.source.Locator.(locator.Swapper); swaps {
		k.moved(meta)
	}
	k.attempts[at].outcome, k.attempts[at].settled = locator.Committed, false
	return true
}

// statisticsOf returns the statistics file of a snapshot; nil if there is none. If metadata has several, it is the last one.
func statisticsOf(meta *metadata.Loaded, snapshot int64) (found *icetable.StatisticsFile) {
	for f := range meta.Statistics() {
		if f.SnapshotID == snapshot {
			found = &f
		}
	}
	return found
}

// write writes a statistics file, and returns its entry for the metadata.
func (k *keepingStatistics) write(ctx context.Context, meta *metadata.Loaded, a *attempt, snapshot *icetable.Snapshot, present *icetable.StatisticsFile) (*revision.Statistics, error) {
	blobs, err := k.others(ctx, meta, present)
	if err != nil {
		return nil, err
	}
	ours := k.ours(snapshot, blobs)
	blobs = append(blobs, ours...)
	size := int64(0)
	for _, b := range blobs {
		size += int64(len(b.Content)) + blobBytes
	}
	if err := meta.File.Charge(size); err != nil {
		return nil, err
	}
	content, footer, err := puffin.Encode(blobs, map[string]string{commit.BlobCreatedBy: k.keep.CreatedBy})
	if err != nil {
		return nil, err
	}
	location := fmt.Sprintf("%s/%s-%d-%s.stats", metadataFolder(meta), k.prefix, snapshot.SnapshotID, uuid.NewString())
	if err := k.writing.write(ctx, meta, a, location, content); err != nil {
		return nil, err
	}
	a.list = location
	out := &revision.Statistics{Snapshot: snapshot.SnapshotID, Path: location, Size: int64(len(content)), Footer: footer, Blobs: []revision.StatisticsBlob{}}
	if present != nil {
		for _, b := range present.BlobMetadata {
			if b.Properties[commit.BlobCreatedBy] != commit.CreatedByUs {
				out.Blobs = append(out.Blobs, revision.DescribedBlob(b))
			}
		}
	}
	// PyIceberg 0.12 cannot open a table whose metadata names a blob of a type that is not in the specification. So
	// only the file itself names the report.
	for _, b := range ours {
		if b.Type == puffin.ThetaSketch {
			out.Blobs = append(out.Blobs, revision.StatisticsBlob{Type: b.Type, Snapshot: b.Snapshot, Sequence: b.Sequence, Fields: b.Fields, Properties: b.Properties})
		}
	}
	return out, nil
}

// blobBytes is charged for each blob of a statistics file, in addition to its content.
const blobBytes = 2 << 10

// others returns the blobs of other programs in a statistics file, which may be nil.
func (k *keepingStatistics) others(ctx context.Context, meta *metadata.Loaded, present *icetable.StatisticsFile) ([]puffin.Blob, error) {
	if present == nil {
		return nil, nil
	}
	unreadable := func(err error) error {
		return fault.As(fault.Op(err, "read the statistics file of before, whose blobs of other programs must stay")).In(k.table, present.StatisticsPath).
			WithRemedy("remove the statistics of the snapshot with the program that wrote them, or repair the file")
	}
	if err := meta.May("statistics file", present.StatisticsPath); err != nil {
		return nil, err
	}
	file := meta.File
	file.What, file.Location = "the statistics file", present.StatisticsPath
	content, err := k.source.Read(ctx, meta.Files, file)
	if err != nil {
		return nil, unreadable(err)
	}
	if err := file.ChargeParsing(content[max(0, int64(len(content))-max(0, present.FileFooterSizeInBytes)):]); err != nil {
		return nil, err
	}
	blobs, err := puffin.Decode(content)
	if err != nil {
		return nil, unreadable(err)
	}
	var out []puffin.Blob
	for _, b := range blobs {
		if b.Type != commit.ReportBlob && b.Properties[commit.BlobCreatedBy] != commit.CreatedByUs {
			out = append(out, b)
		}
	}
	return out, nil
}

// ours returns the blobs to keep, given the blobs of other programs.
func (k *keepingStatistics) ours(snapshot *icetable.Snapshot, others []puffin.Blob) []puffin.Blob {
	blob := func(kind string, from commit.StatisticsBlob, properties map[string]string) puffin.Blob {
		return puffin.Blob{
			Type: kind, Fields: from.Fields, Snapshot: snapshot.SnapshotID, Sequence: snapshot.SequenceNumber, Properties: properties, Content: from.Content,
		}
	}
	var out []puffin.Blob
sketches:
	for _, s := range k.keep.Sketches {
		for _, b := range others {
			if b.Describes(puffin.ThetaSketch, s.Fields[0]) {
				continue sketches
			}
		}
		out = append(out, blob(puffin.ThetaSketch, s, k.keep.BlobProperties(s)))
	}
	return append(out, blob(commit.ReportBlob, k.keep.Report, k.keep.BlobProperties(k.keep.Report)))
}
