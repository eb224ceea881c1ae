// Package source says what is new below the ceiling, and hands it to the window stage.
//
// Two things, and who owns what:
//
//   - Discovery, one per sink (tenant). It owns the looks: every interval it asks the log once which queues moved, for all queues
//     together. It keeps one Feed, a row and no goroutine, for each queue that the sink runs here, and starts the queue's pipeline when
//     something lies below the ceiling. The ceiling of a look is the log's safe time, taken before looking, minus the guard.
//   - Headers, one per running pipeline: the generator for stages.Source. It reads append headers from where the queue stands up to the
//     ceiling, cuts them into batches, and goes on at the next look. It ends when it is told to drain, or when the window stage holds
//     nothing and nothing more is known to come. It never touches bodies.
//   - The sink owns the pipelines: start, run, errors, back-off, and the position.
//
// The life of a queue:
//
//	Watch(queue, position, start)
//	      |
//	      v      something below the ceiling, or Start
//	    quiet -----------------------------------------> running    Discovery has called start(), once
//	      ^                                                 |
//	      +-------------------------------------------------+
//	        Done(position): the sink says that the pipeline has ended, all of it
//
//	feed.Close() at any time: forgotten, start is not called again
//
// So of one queue there is never more than one pipeline, an idle queue costs a row, and a pipeline that failed is started again at the
// look after Done, which the sink calls when its back-off is over. See the example.
//
// What it is not: it knows no leases, intents or windows. Read window.Cutter next.
package source
