"""A corpus on Spark: python spark.py MODEL INPUT.parquet OUTPUT_FOLDER

The column "text" is translated into the column "translation". Spark keeps its Python processes from
task to task: each opens the model once, on one thread, because a task has one CPU. Spark does a
task again whose process has died, and writes what a task made only when it is whole.
"""

import functools
import sys

from pyspark.sql import SparkSession


@functools.cache
def translator(model):
    import acre
    return acre.Translator(model, threads=1)


def translate(spark, model, source, target):
    def work(frames):
        for frame in frames:
            found = translator(model).translate(frame["text"], beam_size=1)
            yield frame.assign(translation=[str(text) for text in found])

    corpus = spark.read.parquet(source)
    schema = corpus.schema.simpleString()[len("struct<"):-1].replace(":", " ")
    corpus.mapInPandas(work, f"{schema}, translation string").write.parquet(target)


if __name__ == "__main__":
    translate(SparkSession.builder.appName("acre").getOrCreate(), *sys.argv[1:4])
