"""The merge of dlt: dlt_merge.py STORE FILE."""
import json, sys
import dlt

pipeline = dlt.pipeline("staff", destination=dlt.destinations.sqlalchemy(f"sqlite:///{sys.argv[1]}"), dataset_name="main",
                        pipelines_dir=".dlt")
pipeline.run(json.load(open(sys.argv[2])), table_name="employee", write_disposition="merge", primary_key="id")
