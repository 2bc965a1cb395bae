"""A corpus on Ray: python ray_data.py MODEL INPUT.parquet OUTPUT_FOLDER

The column "text" is translated into the column "translation". Each actor of the pool opens the
model once, on one thread, because an actor has one CPU, and works on two blocks at a time: while
the last sentences of one are translated, those of the next are on their way. Ray starts an actor
again whose process has died, and does its blocks again; a file is written by one task, under a name
of its own.
"""

import sys

import ray

BLOCKS_AT_A_TIME = 2


class Translate:
    def __init__(self, model):
        import acre
        self.translator = acre.Translator(model, threads=1)

    def __call__(self, batch):  # by several threads at once
        found = self.translator.translate(batch["text"], beam_size=1)
        return batch | {"translation": [str(text) for text in found]}


def translate(model, source, target, actors, blocks=None):
    """The rows are cut into `blocks`, which are what an actor is given at a time. Reading and
    writing need a CPU beside those of the actors: without one, nothing moves."""
    corpus = ray.data.read_parquet(source)
    corpus = corpus.repartition(blocks or 16 * actors)
    pool = ray.data.ActorPoolStrategy(size=actors, enable_true_multi_threading=True)
    translated = corpus.map_batches(Translate, fn_constructor_args=(model,), compute=pool,
                                    num_cpus=1, max_concurrency=BLOCKS_AT_A_TIME, batch_size=None)
    translated.write_parquet(target)


if __name__ == "__main__":
    ray.init()
    translate(*sys.argv[1:4], actors=int(ray.cluster_resources()["CPU"]) - 1)
