package trace

// Kind is what a span measures.
type Kind int

// The kinds.
const (
	Step    Kind = iota // one step of a stream, from the end of the step before to the delivery of its batch
	Wait                // the stream, or a unit of work, waits; the attribute Cause says for what
	Join                // a batch of training rows is read and joined
	Cut                 // the batch of a step is cut from joined rows
	Side                // a build side is taken from the pool, waited for or built
	Build               // a build side is built
	Decode              // a batch of rows is read from a file and decoded
	Request             // one request to storage
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Step, Wait, Join, Cut, Side, Build, Decode, Request} }

// String returns the name of a span.
func (k Kind) String() string {
	switch k {
	case Step:
		return "penstock.step"
	case Wait:
		return "penstock.wait"
	case Join:
		return "penstock.join"
	case Cut:
		return "penstock.cut"
	case Side:
		return "penstock.build_side"
	case Build:
		return "penstock.build"
	case Decode:
		return "penstock.decode"
	case Request:
		return "penstock.request"
	}
	return ""
}

// Key is the key of an attribute.
type Key string

// The keys. Their values are names, counts and words that the code chooses.
const (
	Dataset   Key = "penstock.dataset"   // name; "" if the query carries its dataset
	Stream    Key = "penstock.stream"    // id of the stream, as in the server's status and log
	Plan      Key = "penstock.plan"      // id of the plan
	Shard     Key = "penstock.shard"     // index
	Number    Key = "penstock.step"      // number of the step: Step of the cursor of its batch
	Rows      Key = "penstock.rows"      // count
	Bytes     Key = "penstock.bytes"     // count
	Cause     Key = "penstock.cause"     // of a wait
	Table     Key = "penstock.table"     // name of the table, or of the staging entry of a dataset
	File      Key = "penstock.file"      // the last element of the location, without the folders, whose names may contain values
	Store     Key = "penstock.store"     // "s3" or "files"
	Operation Key = "penstock.operation" // of a request
	Outcome   Key = "penstock.outcome"   // of a request that failed
	Dropped   Key = "penstock.dropped"   // count of spans that the trace lacks, since it has too many
)

// Attribute is an attribute of a span: a text or, if Text is empty, a number.
type Attribute struct {
	Key    Key
	Text   string
	Number int64
}

// Counts reports whether the values of a key are numbers, of which 0 is one.
func Counts(k Key) bool {
	switch k {
	case Shard, Number, Rows, Bytes, Dropped:
		return true
	case Dataset, Stream, Plan, Cause, Table, File, Store, Operation, Outcome:
	}
	return false
}

// Serves reports whether spans of this kind measure what a client has called for.
func (k Kind) Serves() bool {
	switch k {
	case Step:
		return true
	case Wait, Join, Cut, Side, Build, Decode, Request:
	}
	return false
}
