"""``zbk demo``, ``zbk demo spark``: the stories of ``zbk.cluster`` and ``pyspark_zbk``, shown."""
