"""``zbk demo`` and ``zbk demo spark`` show the stories of ``zbk.cluster.demo`` and ``pyspark_zbk``."""
