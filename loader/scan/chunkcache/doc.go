// Package chunkcache holds decoded columns of row groups in memory, for scans to come.
//
// A unit is one column of one row group, as decoded: the arrays of its batches, before deletes,
// filters and samples, so that commits change no unit. It may have only some of the row group's rows. A [ChunkID] identifies
// it by everything that its values depend on, and by neither host nor mount.
//
// A scan pins the units that have all rows that it needs before it fetches a row group (Find), reads them batch by
// batch (Pinned.Read), and adds the rows of the columns that it decodes itself (Fill), when it is past them.
//
//	            Fill                Commit           Find
//	absent ─────────────► filling ─────────► kept ◄────────► pinned
//	   ▲                     │      ◄─────────│  Release       │
//	   │                     │    Fill, if    │                │
//	   │                     │   rows lack    │                │
//	   └─────────────────────┴────────────────┴────────────────┘
//	       nothing is kept, no room, evicted, or memory is needed
//
// Shuffled epochs read a row group in parts, several at once and in any order. Each part is a Fill of its own. Rows that
// several have are kept once: an array without a missing row is not kept, and one replaces those within it. Other overlaps
// remain, up to half of the row group's rows. Until a unit has all rows, room for the others
// is set aside, so that units that begin later do not keep it from becoming complete.
//
// Batches end where arrays of cached columns do, and what is decoded with them then has such arrays, too. So short arrays are
// read as one, a copy: otherwise a table whose columns leave and return would have shorter arrays from epoch to epoch.
//
// What a scan gets else is a view of an array: it refers to the unit's memory, and the memory, with its
// reservation, stays as long as a unit that is kept or any view of it does. A unit that is
// dropped while views are out is charged until the last of them is released.
//
// The memory of units without views is idle memory of the budget (budget.AddIdle): it counts as
// free wherever memory is kept or read ahead only while it is plentiful, counts against no host, and is
// given up before a reservation fails, a stream waits, or the budget counts as pressed. Even pinned units are
// then given up, after all others: a pin only keeps the cache's own limit from evicting a unit. Pinned.Read
// then returns ErrGone, and the scan reads the rest of the row group from its file.
//
// Who comes in: the first scan of a column leaves a ghost, a bounded note of how many rows of it were read. When
// these are as many as it has, scans fill the cache. A scan that is known to be repeated fills it at once. Who leaves: each
// unit has a priority, the value of a clock at its last use plus the time that decoding its column takes per byte in all row groups
// (as in GreedyDual-Size). A new unit takes the place of those whose priority is at most half of its time per
// byte above the clock. One that finds no place advances the clock, so that units that were
// not used while scans passed the cache by about eight times its size lose their place. So a table that
// is read in turns, and is larger than the cache, has a part that stays, and one that is no longer read leaves.
package chunkcache
