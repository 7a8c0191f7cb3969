//go:build !race && !share

package warehouse_test

// few is the number of cases in the short form.
const few = 300

// lineageRows is how many rows TestLineage reads.
const lineageRows = 100

// rare returns the properties that only many cases have.
var rare = []string{
	"refused, which shows", "beside: default",
	"read: by partitions alone", "read: promoted", "read: renamed", "read: inside", "read: tightened", "read: relaxed", "read: replaced", "read: late", "beside: added", "beside: renamed", "beside: replaced", "beside: tightened", "beside: gone", "beside: late", "beside: an order that is not known",
	"read: partitions by decimals", "read: partitions by decimals of one type", "read: partitions by UUIDs", "read: partitions by fixed bytes",
}
