// Package chunkcache keeps decoded columns of row groups in memory, for later scans.
//
// A unit is one decoded column of one row group: the arrays of its batches before deletes, filters
// and samples, so that commits do not change it. A unit may have only some of the row group's rows.
// A [ChunkID] identifies the unit by everything that its values depend on, but not by host or
// mount.
//
// Before a scan fetches a row group, it pins the units that have all of its rows (Find). The scan
// reads pinned units batch by batch (Pinned.Read). It decodes the other columns itself, and adds
// their rows to the cache (Fill); they become available once the scan is past the row group
// (Commit).
//
//	            Fill                Commit           Find
//	absent ─────────────► filling ─────────► kept ◄────────► pinned
//	   ▲                     │      ◄─────────│  Release       │
//	   │                     │    Fill, if    │                │
//	   │                     │   rows lack    │                │
//	   └─────────────────────┴────────────────┴────────────────┘
//	       nothing is kept, no room, evicted, or memory is needed
//
// Shuffled epochs read a row group in parts, several at once and in any order. Each part is a
// separate Fill. Rows that are in several parts are kept once where possible: an array that has no
// missing row is not added, and an added array replaces the arrays whose rows it contains. Other
// overlaps remain, up to half of the row group's rows. Until a unit has all rows, room for the
// missing rows is set aside, so that units that begin later do not prevent the unit from becoming
// complete.
//
// Batches end where arrays of cached columns end. Columns that are decoded for the same batch get
// arrays of the same length. Several short arrays are therefore read as one copy: otherwise, if
// columns of a table are dropped and cached again, their arrays would become shorter in each epoch.
//
// A longer array is read as a view: it refers to the unit's memory, which stays, with its reservation,
// as long as the unit is kept or any view exists. A unit that is dropped while it has views is charged
// until the last view is released.
//
// The memory of units without views is idle memory of the budget (budget.AddIdle): it counts as
// free for decisions to keep memory or to read ahead, counts against no host, and is released
// before a reservation fails, a stream waits, or the budget counts as pressed. Pinned units are
// dropped last, but they are dropped, too: a pin protects a unit only from the cache's own limit.
// Pinned.Read then returns ErrGone, and the scan reads the rest of the row group from its file.
//
// Admission: the first scan of a column leaves a ghost, a bounded note of how many of its rows were
// read. Once as many rows as the column holds have been read, scans fill the cache. A scan that is
// known to be repeated fills it at once. Eviction: each unit has a priority, the value of a clock
// at its last use plus the time that decoding its column takes per byte in all row groups (as in
// GreedyDual-Size). A new unit replaces units whose priority exceeds the clock by at most half of
// the new unit's time per byte. A unit that finds no place advances the clock, so units lose their
// place if they are not used while scans read about eight times the size of the cache past it. So
// if a table that is larger than the cache is read repeatedly, a part of the table stays in the
// cache. A table that is no longer read leaves the cache.
package chunkcache
