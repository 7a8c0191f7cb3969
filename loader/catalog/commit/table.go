package commit

// NewColumn is a column of a table's schema. Columns that are added to an existing table are
// optional.
type NewColumn struct {
	ID   int // the field id, as in the data files
	Name string
	// Type is the Iceberg type in its JSON form: the name of a primitive type, such as long or
	// decimal(9, 2), or the object of a nested type, with the ids of its fields.
	Type     string
	Doc      string
	Required bool
}

// NewTable is a table to create.
type NewTable struct {
	Table string
	// Location is the folder of the table's files. If it is "", the catalog chooses the folder from
	// the table's name.
	Location string
	// Version is the format version; 0 means 2.
	Version    int
	Columns    []NewColumn
	Partition  []PartitionBy
	Sort       []SortBy
	Properties map[string]string
}

// PropertyKey is the property of a table that has the names of the columns of its key, as a JSON
// list. No two rows are equal in all of them and in the columns of the sort order.
const PropertyKey = "penstock.key"

// PartitionBy is a field of a new table's partition spec. Field ids are assigned from
// 1000 on.
type PartitionBy struct {
	Column    int // field id of the source column
	Name      string
	Transform string // in Iceberg's form: identity, bucket[16], truncate[4], day
}

// SortBy is a field of a new table's sort order.
type SortBy struct {
	Column     int // field id of the source column
	Transform  string
	Descending bool
	NullsLast  bool
}

// Move moves a branch from one snapshot to another, if the branch is at the first one.
type Move struct {
	Table string
	UUID  string // of the table
	Ref   string
	// From is the snapshot that the branch must be at; 0: the branch must not exist.
	From int64
	// To is the snapshot that the branch is moved to; 0 removes the branch.
	To int64
}

// Publication is a request to move main to the snapshot of a branch.
type Publication struct {
	Table, Branch string
	// From and To are the snapshots at which the caller has seen main and the branch; From is 0 if main had none. If To is
	// 0, the caller has seen none, and the request is for the snapshots at which they are.
	From, To int64
}
