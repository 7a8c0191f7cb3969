// Package trace records how single steps of a stream spend their time, as spans of a distributed trace.
//
// A stream lasts for hours, so only each n-th of its steps is traced. Each traced step is one trace. The trace's id, and the id of
// its first span, follow from the traceparent header of the call and the number of the step (docs/spec/trace.md), so that a trainer
// adds its own spans to the same trace without a message about it.
//
// The context of a stream has a Track: the place where code that works for the stream records spans. Code that works ahead of the
// stream, such as a decoder, has a Track of its own, made by Ahead. It divides its work into units. A unit is a trace of its own; it
// is exported if a traced step uses the unit's result, and that step has a link to it. So the steps that are not traced cost almost
// nothing, and no span of a traced step begins before the step.
//
// The attributes of spans are a closed set of keys: names of datasets, tables and files, counts, bytes and causes. Values of rows,
// constants of filters and credentials are not recorded.
//
// If a context has no Track, all functions do nothing. All times come from Options.Clock.
package trace
