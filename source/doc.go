// Package source says what is new below the ceiling, and hands it to the window stage.
//
// Two things, and who owns what:
//
//   - Discovery, one per sink (tenant). It owns the looks: every interval it asks the log once which queues moved, for all queues
//     together. It keeps one Feed, a row and no goroutine, for each queue that the sink runs here. It fills the row's window from the
//     headers below the ceiling, and starts the queue's pipeline when a window is due or a row is too far behind to be filled here. The
//     ceiling of a look is the log's safe time, taken before looking, minus the guard.
//   - Headers, one per running pipeline: the generator for stages.Source. It reads append headers from where the queue stands up to the
//     ceiling, cuts them into batches, and ends. It never touches bodies.
//   - The sink owns the pipelines: start, run, errors, back-off, and the position. It asks Feed.Fill whether another run is needed at once.
//
// The life of a queue:
//
//	Watch(queue, window, start)
//	      |                                    Fill: is there anything to do?
//	      v                Done()
//	   running ---------------------------> quiet      Discovery fills the window
//	      ^                                   |
//	      +-----------------------------------+
//	        start(), once: a window is due, or there is more than a row reads
//
//	feed.Close() at any time: forgotten, start is not called again
//
// So of one queue there is never more than one pipeline and one reader, a queue that is idle or fills costs a row, and a pipeline that
// failed is started again at the look after Done, which the sink calls when its back-off is over. See the example.
//
// What it is not: it knows no leases, intents or windows. Read window.Cutter next.
package source
