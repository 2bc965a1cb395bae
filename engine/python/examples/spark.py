"""A corpus on Spark: python spark.py MODEL INPUT.parquet OUTPUT_FOLDER

The column "text" is translated into the column "translation". Spark keeps its Python processes from
task to task: each opens the model once, on one thread, because a task has one CPU. Spark does a
task again whose process has died, and writes what a task made only when it is whole.
"""

import functools
import itertools
import sys

from pyspark.sql import SparkSession


@functools.cache
def translator(model):
    import acre
    return acre.Translator(model, threads=1)


def translate(spark, model, source, target, tasks=None):
    """The rows are cut into `tasks`: many, so that all CPUs end at about the same time, and not so
    many that each is over as soon as it has begun."""
    def work(frames):
        frames, ahead = itertools.tee(frames)
        texts = (frame["text"] for frame in ahead)
        found = translator(model).stream_batches(texts, beam_size=1)
        for frame, translations in zip(frames, found):
            yield frame.assign(translation=[str(text) for text in translations])

    corpus = spark.read.parquet(source)
    corpus = corpus.repartition(tasks or 16 * spark.sparkContext.defaultParallelism)
    schema = corpus.schema.simpleString()[len("struct<"):-1].replace(":", " ")
    corpus.mapInPandas(work, f"{schema}, translation string").write.parquet(target)


if __name__ == "__main__":
    translate(SparkSession.builder.appName("acre").getOrCreate(), *sys.argv[1:4])
