package catalog

import "strconv"

// PinTagPrefix begins the names of tags that keep pinned snapshots. The snapshot's id follows.
const PinTagPrefix = "penstock-"

// PinTag returns the name of the tag that keeps a pinned snapshot. All servers share the tag of a snapshot.
func PinTag(snapshot int64) string { return PinTagPrefix + strconv.FormatInt(snapshot, 10) }
