-- Files that are put into containers have OpenAI's own purposes; only those of `batch` become batches.
alter table files
    drop constraint files_purpose_check,
    add constraint files_purpose_check
        check (purpose in ('batch', 'batch_output', 'user_data', 'assistants'));
